#include "weights/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "core/json.h"
#include "core/random.h"
#include "tests/temp_folder.h"

namespace lazytrain {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SafetensorsTest : public ::testing::Test {
 protected:
  // A file of this header and so many data bytes.
  Path Raw(const std::string& header, size_t data_bytes,
           const std::string& name = "x.safetensors") {
    std::string text(8, '\0');
    const uint64_t length = header.size();
    std::memcpy(text.data(), &length, 8);
    std::ofstream(folder_ / name, std::ios::binary)
        << text << header << std::string(data_bytes, 'd');
    return folder_ / name;
  }

  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  TempFolder temp_;
  const Path folder_ = temp_.path();
};

std::string MessageOf(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

std::string OpenError(const Path& path) {
  return MessageOf([&] { SafetensorsFile file(path); });
}

TEST_F(SafetensorsTest, ReadsAFileWrittenByHand) {
  const Path path = Raw(R"({"__metadata__":{"format":"pt"},)"
                        R"("b":{"dtype":"U8","shape":[2,3],"data_offsets":[4,10]},)"
                        R"("empty":{"dtype":"F32","shape":[0,5],"data_offsets":[4,4]},)"
                        R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                        R"("q":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[10,12]}}  )",
                        12);
  const SafetensorsFile file(path);
  EXPECT_EQ(file.tensors().size(), 3u);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.Find("a").shape, Shape{});
  EXPECT_EQ(file.Find("a").bytes, 4);
  EXPECT_EQ(file.Find("b").dtype, DType::kU8);
  EXPECT_EQ(file.Find("b").shape, (Shape{2, 3}));
  EXPECT_EQ(file.Find("b").data - file.Find("a").data, 4);
  EXPECT_EQ(file.Find("empty").bytes, 0);
  EXPECT_EQ(static_cast<char>(*file.Find("b").data), 'd');
  EXPECT_TRUE(file.Contains("q"));
  EXPECT_THAT(MessageOf([&] { file.Find("q"); }),
              AllOf(HasSubstr("x.safetensors"), HasSubstr("'q'"), HasSubstr("F8_E4M3")));
  EXPECT_THAT(MessageOf([&] { file.Find("zz"); }),
              AllOf(HasSubstr("x.safetensors"), HasSubstr("no tensor 'zz'")));
}

// Random bytes of a tensor, kept by the caller.
std::string RandomBytes(Random& random, int64_t bytes) {
  std::string text(static_cast<size_t>(bytes), '\0');
  for (char& c : text) c = static_cast<char>(random.Next());
  return text;
}

std::string_view BytesOf(const StoredTensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.data), static_cast<size_t>(tensor.bytes)};
}

TEST_F(SafetensorsTest, RoundTripOfOneFile) {
  Random random(1);
  const std::string norm = RandomBytes(random, 5 * 2);
  const std::string big = RandomBytes(random, 1100 * 500 * 4);  // more than a write buffer
  SafetensorsWriter writer(folder_);
  writer.Add({"norm", DType::kBF16, {5}, norm.data(), nullptr});
  int fills = 0;
  writer.Add({"big", DType::kF32, {1100, 500}, nullptr, [&](std::byte* out, int64_t bytes) {
                ++fills;
                ASSERT_EQ(bytes, static_cast<int64_t>(big.size()));
                std::memcpy(out, big.data(), big.size());
              }});
  writer.Add({"none", DType::kF32, {0}, nullptr, nullptr});
  writer.Write();
  EXPECT_EQ(fills, 1);
  EXPECT_THAT(Files(), ElementsAre("model.safetensors"));

  const Checkpoint checkpoint(folder_);
  EXPECT_THAT(checkpoint.names(), ElementsAre("big", "none", "norm"));
  EXPECT_EQ(BytesOf(checkpoint.Find("norm")), norm);
  EXPECT_EQ(BytesOf(checkpoint.Find("big")), big);
  EXPECT_EQ(checkpoint.Find("big").shape, (Shape{1100, 500}));
  EXPECT_EQ(checkpoint.Find("norm").dtype, DType::kBF16);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(checkpoint.Find("big").data) % 8, 0u);
  const SafetensorsFile file(folder_ / "model.safetensors");
  EXPECT_EQ(file.metadata().at("format"), "pt");
}

TEST_F(SafetensorsTest, HeaderIsTheHubs) {
  const std::string bytes(4, 'x');
  WriteSafetensorsFile(folder_ / "y", {{"weight", DType::kBF16, {1, 2}, bytes.data(), nullptr}});
  const std::string text = ReadFile(folder_ / "y");
  const std::string header = R"({"__metadata__":{"format":"pt"},)"
                             R"("weight":{"dtype":"BF16","shape":[1,2],"data_offsets":[0,4]}})";
  const size_t padded = (header.size() + 7) / 8 * 8;
  ASSERT_NE(padded, header.size());
  ASSERT_EQ(text.size(), 8 + padded + 4);
  EXPECT_EQ(static_cast<size_t>(static_cast<unsigned char>(text[0])), padded);
  EXPECT_EQ(text.substr(8, padded), header + std::string(padded - header.size(), ' '));
}

TEST_F(SafetensorsTest, RoundTripOfShards) {
  // 40, 40 | 60 | 250 (larger than a shard) | 10 of at most 100 bytes.
  Random random(2);
  std::vector<std::string> bytes;
  SafetensorsWriter writer(folder_, 100);
  for (const int64_t size : {40, 40, 60, 250, 10}) bytes.push_back(RandomBytes(random, size));
  for (size_t i = 0; i < bytes.size(); ++i) {
    writer.Add({fmt::format("t{}", i),
                DType::kU8,
                {static_cast<int64_t>(bytes[i].size())},
                bytes[i].data(),
                nullptr});
  }
  writer.Write();
  EXPECT_THAT(Files(),
              ElementsAre("model-00001-of-00004.safetensors", "model-00002-of-00004.safetensors",
                          "model-00003-of-00004.safetensors", "model-00004-of-00004.safetensors",
                          "model.safetensors.index.json"));
  const Json index = ReadJsonFile(folder_ / "model.safetensors.index.json");
  EXPECT_EQ(index["metadata"]["total_size"], 400);
  EXPECT_EQ(index["weight_map"]["t1"], "model-00001-of-00004.safetensors");
  EXPECT_EQ(index["weight_map"]["t2"], "model-00002-of-00004.safetensors");
  EXPECT_EQ(index["weight_map"]["t4"], "model-00004-of-00004.safetensors");
  const Checkpoint checkpoint(folder_);
  EXPECT_EQ(checkpoint.names().size(), 5u);
  for (size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_EQ(BytesOf(checkpoint.Find(fmt::format("t{}", i))), bytes[i]);
  }
  EXPECT_EQ(checkpoint.FileOf("t3").filename(), "model-00003-of-00004.safetensors");
  EXPECT_FALSE(checkpoint.Contains("t5"));
  EXPECT_THAT(MessageOf([&] { checkpoint.Find("t5"); }),
              AllOf(HasSubstr(folder_.string()), HasSubstr("'t5'")));
}

TEST_F(SafetensorsTest, ReadsFilesOfTheReferenceImplementation) {
  const Path model = Path(LAZYTRAIN_SHARED_DIR) / "golden" / "qwen3";
  ASSERT_TRUE(std::filesystem::exists(model / "model.safetensors")) << model;
  const Checkpoint checkpoint(model);
  const StoredTensor& embedding = checkpoint.Find("model.embed_tokens.weight");
  ASSERT_EQ(embedding.shape.size(), 2u);
  EXPECT_EQ(embedding.bytes, NumElements(embedding.shape) * SizeOf(embedding.dtype));
  // Written again and read: the same bits.
  SafetensorsWriter writer(folder_, 20'000);
  for (const std::string& name : checkpoint.names()) {
    const StoredTensor& tensor = checkpoint.Find(name);
    writer.Add({name, tensor.dtype, tensor.shape, tensor.data, nullptr});
  }
  writer.Write();
  EXPECT_GT(Files().size(), 2u);
  const Checkpoint copy(folder_);
  EXPECT_EQ(copy.names(), checkpoint.names());
  for (const std::string& name : checkpoint.names()) {
    EXPECT_EQ(BytesOf(copy.Find(name)), BytesOf(checkpoint.Find(name))) << name;
    EXPECT_EQ(copy.Find(name).shape, checkpoint.Find(name).shape) << name;
  }
}

TEST_F(SafetensorsTest, TruncatedAnywhereIsAnErrorWithBytes) {
  const std::string data(24, 'x');
  WriteSafetensorsFile(folder_ / "whole", {{"first", DType::kF32, {2}, data.data(), nullptr},
                                           {"last", DType::kF32, {4}, data.data(), nullptr}});
  const std::string whole = ReadFile(folder_ / "whole");
  for (size_t size = 0; size < whole.size(); ++size) {
    WriteFile(folder_ / "cut", whole.substr(0, size));
    EXPECT_THAT(OpenError(folder_ / "cut"),
                AllOf(HasSubstr("cut: truncated: "),
                      HasSubstr(fmt::format("bytes are expected and {} are present", size))));
  }
  WriteFile(folder_ / "cut", whole.substr(0, whole.size() - 1));
  EXPECT_THAT(OpenError(folder_ / "cut"),
              AllOf(HasSubstr(fmt::format("{} bytes are expected", whole.size())),
                    HasSubstr("tensor 'last'")));
  WriteFile(folder_ / "cut", whole.substr(0, whole.size() - 17));
  EXPECT_THAT(OpenError(folder_ / "cut"), HasSubstr("tensor 'first'"));
  WriteFile(folder_ / "long", whole + "z");
  EXPECT_THAT(OpenError(folder_ / "long"), HasSubstr("1 bytes belong to no tensor"));
}

TEST_F(SafetensorsTest, MissingFilesAreNamed) {
  EXPECT_THAT(OpenError(folder_ / "absent.safetensors"), HasSubstr("absent.safetensors"));
  EXPECT_THAT(MessageOf([&] { Checkpoint checkpoint(folder_); }),
              AllOf(HasSubstr("neither model.safetensors nor model.safetensors.index.json"),
                    HasSubstr(folder_.string())));
  EXPECT_THAT(MessageOf([&] { Checkpoint checkpoint(folder_ / "no"); }),
              HasSubstr("is not a folder"));
}

TEST_F(SafetensorsTest, NotSafetensors) {
  WriteFile(folder_ / "lfs", "version https://git-lfs.github.com/spec/v1\noid sha256:00\n");
  EXPECT_THAT(OpenError(folder_ / "lfs"), HasSubstr("Git LFS pointer"));
  WriteFile(folder_ / "zip", "PK\x03\x04 and so on, no header length at all");
  EXPECT_THAT(OpenError(folder_ / "zip"), HasSubstr("is not a safetensors file"));
}

TEST_F(SafetensorsTest, MalformedHeadersSayWhere) {
  EXPECT_THAT(OpenError(Raw("[1]", 0)), HasSubstr("byte 8 is not '{'"));
  EXPECT_THAT(OpenError(Raw("", 0)), HasSubstr("byte 8 is not '{'"));
  EXPECT_THAT(OpenError(Raw(R"({"a":})", 0)), HasSubstr("malformed header: byte 13 "));
  EXPECT_THAT(OpenError(Raw(R"({"a":1)", 0)), HasSubstr("malformed header: byte "));
  EXPECT_THAT(OpenError(Raw("{\"a\xff\":1}", 0)), HasSubstr("malformed header: byte "));
  std::string deep = R"({"a":)";
  deep.append(1'000'000, '[');
  EXPECT_THAT(OpenError(Raw(deep, 0)), HasSubstr("nested more than"));
  EXPECT_THAT(OpenError(Raw(R"({"__metadata__":3})", 0)), HasSubstr("__metadata__"));
  EXPECT_THAT(OpenError(Raw(R"({"__metadata__":{"k":3}})", 0)), HasSubstr("'k'"));
}

TEST_F(SafetensorsTest, BrokenEntriesNameTheTensor) {
  const auto error = [&](const std::string& entry) {
    const std::string text = OpenError(Raw("{\"w\":" + entry + "}", 8));
    EXPECT_THAT(text, AllOf(HasSubstr("x.safetensors"), HasSubstr("tensor 'w'")));
    return text;
  };
  EXPECT_THAT(error("3"), HasSubstr("not an object"));
  EXPECT_THAT(error(R"({"dtype":"F32","shape":[2]})"), HasSubstr("lacks 'data_offsets'"));
  EXPECT_THAT(error(R"({"dtype":"F31","shape":[2],"data_offsets":[0,8]})"), HasSubstr("\"F31\""));
  EXPECT_THAT(error(R"({"dtype":7,"shape":[2],"data_offsets":[0,8]})"), HasSubstr("type 7"));
  EXPECT_THAT(error(R"({"dtype":"F32","shape":2,"data_offsets":[0,8]})"),
              HasSubstr("not an array"));
  EXPECT_THAT(error(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})"), HasSubstr("-2"));
  EXPECT_THAT(error(R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})"), HasSubstr("2.0"));
  EXPECT_THAT(error(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"),
              HasSubstr("shape [3] of F32 does not fit its 8 bytes"));
  EXPECT_THAT(error(R"({"dtype":"F4","shape":[3],"data_offsets":[0,1]})"),
              HasSubstr("does not fit"));
  // 2^62 * 4 elements of 4 bytes wrap to 0 in 64 bits.
  EXPECT_THAT(error(R"({"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]})"),
              HasSubstr("does not fit"));
  EXPECT_THAT(error(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})"), HasSubstr("[8,0]"));
  EXPECT_THAT(error(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8,9]})"), HasSubstr("[0,8,9]"));
  EXPECT_THAT(error(R"({"dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551615]})"),
              HasSubstr("18446744073709551615"));
}

TEST_F(SafetensorsTest, OverlapsHolesAndDuplicates) {
  const auto two = [&](const std::string& second, size_t bytes) {
    return OpenError(
        Raw(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)" + second + "}", bytes));
  };
  EXPECT_THAT(two(R"("b":{"dtype":"U8","shape":[4],"data_offsets":[3,7]})", 7),
              AllOf(HasSubstr("tensor 'b'"), HasSubstr("inside another tensor")));
  EXPECT_THAT(two(R"("b":{"dtype":"U8","shape":[4],"data_offsets":[5,9]})", 9),
              AllOf(HasSubstr("tensor 'b'"), HasSubstr("the tensor before it ends at 4")));
  EXPECT_THAT(two(R"("a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]})", 8),
              AllOf(HasSubstr("tensor 'a'"), HasSubstr("twice")));
  EXPECT_THAT(OpenError(Raw(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})", 6)),
              HasSubstr("tensor 'a'"));
}

// Any single changed byte of the header is refused or gives tensors inside the file.
TEST_F(SafetensorsTest, RandomCorruptionNeverLeavesTheFile) {
  const std::string data(24, 'x');
  WriteSafetensorsFile(folder_ / "whole", {{"first", DType::kF32, {2}, data.data(), nullptr},
                                           {"last", DType::kF32, {4}, data.data(), nullptr}});
  const std::string whole = ReadFile(folder_ / "whole");
  Random random(3);
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string broken = whole;
    broken[random.Below(whole.size() - 24)] = static_cast<char>(random.Next());
    std::ofstream(folder_ / "broken", std::ios::binary) << broken;
    try {
      const SafetensorsFile file(folder_ / "broken");
      int64_t sum = 0;
      for (const auto& [name, tensor] : file.tensors()) sum += tensor.bytes;
      EXPECT_LE(sum, 24);
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST_F(SafetensorsTest, BrokenIndexes) {
  const auto error = [&](const std::string& index) {
    WriteFile(folder_ / "model.safetensors.index.json", index);
    return MessageOf([&] { Checkpoint checkpoint(folder_); });
  };
  Raw(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4, "s1.safetensors");
  EXPECT_THAT(error("{}"), HasSubstr("weight_map"));
  EXPECT_THAT(error("{\n{"), HasSubstr("index.json:2"));
  EXPECT_THAT(error(R"({"weight_map":{"a":"s1.safetensors","b":"s2.safetensors"}})"),
              AllOf(HasSubstr("s2.safetensors"), HasSubstr("'b'"), HasSubstr("missing")));
  EXPECT_THAT(error(R"({"weight_map":{"a":"s1.safetensors","b":"s1.safetensors"}})"),
              AllOf(HasSubstr("s1.safetensors: lacks tensor 'b'")));
  EXPECT_THAT(error(R"({"weight_map":{"a":"../s1.safetensors"}})"), HasSubstr("not the name"));
  EXPECT_THAT(error(R"({"weight_map":{"a":".."}})"), HasSubstr("not the name"));
  EXPECT_THAT(error(R"({"weight_map":{"a":1}})"), HasSubstr("not a string"));
}

// Fails one call after so many bytes were written, or at the n-th rename.
class FullDisk : public FileLayer {
 public:
  int64_t room = INT64_MAX;
  int renames = INT32_MAX;
  int64_t Write(int fd, const void* data, size_t bytes) override {
    if (room == 0) {
      errno = ENOSPC;
      return -1;
    }
    const auto some = std::min<int64_t>(room, static_cast<int64_t>(bytes));
    const int64_t written = FileLayer::Write(fd, data, static_cast<size_t>(some));
    room -= written;
    return written;
  }
  int Rename(const char* from, const char* to) override {
    if (renames-- > 0) return FileLayer::Rename(from, to);
    errno = EIO;
    return -1;
  }
};

TEST_F(SafetensorsTest, AFullDiskLeavesNoHalfFile) {
  const std::string data(3'000'000, 'x');
  const auto write = [&](FullDisk& disk) {
    SafetensorsWriter writer(folder_, 4'000'000, disk);
    for (const char* name : {"a", "b", "c"}) {
      writer.Add({name, DType::kU8, {3'000'000}, data.data(), nullptr});
    }
    writer.Write();
  };
  for (const int64_t room : {0, 1, 2'900'000, 3'500'000, 8'999'999, 9'000'100}) {
    FullDisk disk;
    disk.room = room;
    EXPECT_THAT(MessageOf([&] { write(disk); }),
                AllOf(HasSubstr(folder_.string()), HasSubstr("No space left")));
    EXPECT_TRUE(Files().empty()) << room;
  }
  for (const int renames : {0, 1, 3}) {
    FullDisk disk;
    disk.renames = renames;
    EXPECT_THAT(MessageOf([&] { write(disk); }), HasSubstr("cannot finish"));
    EXPECT_TRUE(Files().empty()) << renames;
  }
  FullDisk fine;
  write(fine);
  EXPECT_EQ(Files().size(), 4u);
}

TEST_F(SafetensorsTest, AFailingFillLeavesNoFile) {
  SafetensorsWriter writer(folder_);
  writer.Add({"a", DType::kU8, {3}, nullptr, [](std::byte*, int64_t) {
                throw RunError("the device is gone");
              }});
  EXPECT_THAT(MessageOf([&] { writer.Write(); }), HasSubstr("the device is gone"));
  EXPECT_TRUE(Files().empty());
}

TEST_F(SafetensorsTest, RefusesToMixLayouts) {
  const std::string data(80, 'x');
  const auto write = [&](int64_t shard) {
    SafetensorsWriter writer(folder_, shard);
    for (const char* name : {"a", "b"}) writer.Add({name, DType::kU8, {40}, data.data(), nullptr});
    writer.Write();
  };
  write(100);
  write(100);  // the same layout again is an update
  EXPECT_THAT(MessageOf([&] { write(50); }), HasSubstr("another layout (model.safetensors)"));
  EXPECT_THAT(Files(), ElementsAre("model.safetensors"));
}

TEST_F(SafetensorsTest, RefusesEqualNames) {
  const std::string data(80, 'x');
  for (const int64_t shard : {100, 50}) {
    SafetensorsWriter writer(folder_, shard);
    for (int i = 0; i < 2; ++i) writer.Add({"a", DType::kU8, {40}, data.data(), nullptr});
    EXPECT_THAT(MessageOf([&] { writer.Write(); }), HasSubstr("'a'"));
    EXPECT_TRUE(Files().empty());
  }
}

}  // namespace
}  // namespace lazytrain
