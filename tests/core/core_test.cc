// Small things that everything relies on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/dtype.h"
#include "core/error.h"
#include "core/file.h"
#include "core/hash.h"
#include "core/json.h"
#include "core/random.h"
#include "core/units.h"
#include "tests/temp_folder.h"

namespace lazytrain {
namespace {

using ::testing::HasSubstr;

TEST(BFloat16, RoundsToNearestEven) {
  EXPECT_EQ(ToBFloat16(1.0f).bits, 0x3f80);
  EXPECT_EQ(ToBFloat16(1.00390625f).bits, 0x3f80);  // a tie: down to the even one
  EXPECT_EQ(ToBFloat16(1.01171875f).bits, 0x3f82);  // a tie: up to the even one
  EXPECT_EQ(ToBFloat16(1.00390637f).bits, 0x3f81);
  EXPECT_TRUE(std::isnan(ToFloat(ToBFloat16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isinf(ToFloat(ToBFloat16(3.4e38f))));
}

TEST(Units, AsPeopleWriteThem) {
  EXPECT_EQ(BytesFromGB(70.0), 70'000'000'000);
  EXPECT_EQ(FormatBytes(999), "999 B");
  EXPECT_EQ(FormatBytes(8'080'000), "8.08 MB");
  EXPECT_EQ(FormatSeconds(0.0123), "12.3 ms");
  EXPECT_EQ(FormatSeconds(11520), "3 h 12 min");
}

TEST(Json, ErrorsNameTheLine) {
  try {
    ParseJson("{\n \"a\": 1,\n \"b\": }\n", "x.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("x.json:3: malformed JSON"));
  }
  EXPECT_THROW(ParseJson(std::string(100'000, '['), "deep"), Error);
  EXPECT_THROW(ParseJson("", "empty"), Error);
  EXPECT_EQ(ParseJson(R"({"z": 1, "a": "]["})", "ok").begin().key(), "z");  // keeps the order
}

// A disk that is full after so many bytes.
class FullDisk : public FileLayer {
 public:
  explicit FullDisk(int64_t room) : room_(room) {}
  int64_t Write(int fd, const void* data, size_t bytes) override {
    if (room_ <= 0) {
      errno = ENOSPC;
      return -1;
    }
    const auto fits = std::min<size_t>(bytes, static_cast<size_t>(room_));
    room_ -= static_cast<int64_t>(fits);
    return FileLayer::Write(fd, data, fits);
  }

 private:
  int64_t room_;
};

TEST(File, IsWrittenWholeOrNotAtAll) {
  const TempFolder folder;
  const Path path = folder.path() / "whole.txt";
  WriteFile(path, "first");
  FullDisk full(3);
  EXPECT_THROW(WriteFile(path, "second", full), Error);
  EXPECT_EQ(ReadFile(path), "first");
  EXPECT_FALSE(std::filesystem::exists(path.string() + ".partial"));
  WriteFile(path, "third");
  EXPECT_EQ(ReadFile(path), "third");
}

TEST(Random, StaysTheSame) {
  // Shuffles of a run must not change with the library or the platform.
  Random random(42);
  EXPECT_EQ(random.Next(), 13679457532755275413ull);
  std::vector<int> items = {0, 1, 2, 3, 4, 5, 6, 7};
  random.Shuffle(items);
  std::vector<int> sorted = items;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_THAT(sorted, ::testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  double mean = 0;
  double square = 0;
  for (int i = 0; i < 20000; ++i) {
    const double x = random.Normal();
    mean += x / 20000;
    square += x * x / 20000;
  }
  EXPECT_NEAR(mean, 0.0, 0.03);
  EXPECT_NEAR(square, 1.0, 0.05);
}

TEST(Digest, IsXxh3) {
  EXPECT_EQ(Digest().Hex(), "99aa06d3014798d86001c324468d497f");  // published for the empty input
  Digest whole;
  whole.Add("lazytrain");
  Digest parts;
  parts.Add("lazy");
  parts.Add("train");
  EXPECT_EQ(whole.Hex(), parts.Hex());
}

}  // namespace
}  // namespace lazytrain
