// Wrong configurations, data, schedules and places: one line says what, where and how to mend it,
// and nothing is written.
#include <functional>

#include "tests/e2e/program.h"

namespace lazytrain {
namespace {

class SftErrors : public ProgramTest {};

struct Refusal {
  Words overrides;
  int status;
  Words parts;
};

TEST_F(SftErrors, Settings) {
  const std::vector<Refusal> refusals = {
      {{"training.batch_sise=4"}, 2, {"command line", "training.batch_size"}},
      {{"batch"}, 2, {"command line", "'batch'", "key=value"}},
      {{"training.num_steps=many"}, 2, {"training.num_steps", "'many'", "whole number"}},
      {{"training.batch_tokens=-5"}, 2, {"training.batch_tokens", "-5"}},
      {{"training.batch_size=4"}, 2, {"training.batch_tokens", "config.yaml:7", "keep one"}},
      {{"dataset.max_seq_len=1024", "training.batch_tokens=2048", "memory.micro_batch_tokens=2048"},
       2,
       {"dataset.max_seq_len", "1024", "512", "max_position_embeddings"}},
      {{"training.batch_tokens=0", "training.batch_size=1000000000"},
       2,
       {"training.batch_size", "micro-batches", "memory.micro_batch_tokens"}},
      {{"memory.passes=1000"}, 2, {"memory.passes", "1000", "micro-batches"}},
      {{"memory.host_memory_gb=0.001"}, 2, {"memory.host_memory_gb", "there are 1.00 MB"}},
      {{"optimizer.clip=previous"}, 2, {"optimizer.clip", "previous", "not built", "exact"}},
      {{"memory.nvme_dir=/tmp"}, 2, {"memory.nvme_dir", "not built"}},
      {{"eval.holdout=0.1"}, 2, {"eval.holdout", "not built"}},
      {{"training.save_every=5"}, 2, {"training.save_every", "not built"}},
      {{"model.device=cuda:99"}, kNoGpuStatus, {"cpu"}},
      {{"logging.metrics=config.yaml"}, 2, {"logging.metrics", "another name"}},
      {{"logging.metrics=export"}, 2, {"logging.metrics", "another name"}},
      {{"logging.metrics=a/b"}, 2, {"logging.metrics", "file name"}},
      {{"model.name="}, 2, {"model.name"}},
  };
  for (const Refusal& refusal : refusals) {
    SCOPED_TRACE(testing::PrintToString(refusal.overrides));
    ExpectRefused(refusal.overrides, refusal.status, refusal.parts);
  }
}

TEST_F(SftErrors, ConfigurationFiles) {
  const std::string good = ReadFile(*this / "config.yaml");
  const std::vector<std::pair<std::string, Words>> files = {
      {"model:\n  name: [a\n", {"config.yaml:2: malformed YAML"}},
      {"model:\n\tname: a\n", {"config.yaml:2:", "spaces"}},
      {good + "  pasess: 3\n", {"config.yaml:18: memory.pasess", "'memory.passes'"}},
      {good + "trainig:\n  seed: 3\n", {"config.yaml:19: trainig.seed", "'training.seed'"}},
      {good + "  solve_seconds: soon\n", {"config.yaml:18: memory.solve_seconds", "'soon'"}},
      {good + "  host_memory_gb: -1\n", {"config.yaml:18: memory.host_memory_gb", "-1"}},
      {good + "training:\n  seed: 3\n", {"config.yaml:18: training", "config.yaml:6"}},
      {"", {"config.yaml: model.name", "is missing"}},
      {"train it\n", {"config.yaml:1:", "mapping"}},
      {"- a\n- b\n", {"config.yaml:1:", "mapping"}},
  };
  for (const auto& [text, parts] : files) {
    SCOPED_TRACE(text);
    Write("config.yaml", text);
    ExpectRefused({}, 2, parts);
  }
  std::filesystem::remove(*this / "config.yaml");
  ExpectRefused({}, 2, {"config.yaml: there is no such file"});
  std::filesystem::create_directory(*this / "config.yaml");
  ExpectRefused({}, 2, {"config.yaml: is a folder"});
}

TEST_F(SftErrors, Data) {
  const auto refuse = [this](const std::string& name, const std::string& text, int status,
                             const Words& parts) {
    SCOPED_TRACE(name + ": " + text);
    Write(name, text);
    ExpectRefused({"dataset.path=" + name}, status, parts);
  };
  refuse("a.txt", "", 1, {"a.txt: no examples"});
  refuse("a.txt", "\n  \n\n", 1, {"a.txt: no examples"});
  refuse("a.txt", "one\n\ntw\xff\n", 1, {"a.txt:3:", "UTF-8", "iconv"});
  refuse("a.jsonl", "", 1, {"a.jsonl: no examples"});
  refuse("a.jsonl", "{\"text\": \"a\"}\n{\"text\": \"b\"\n", 1, {"a.jsonl:2: malformed JSON"});
  refuse("a.jsonl", "{\"text\": \"a\"}\n{\"txt\": \"b\"}\n", 1,
         {"a.jsonl:2:", "'text'", "'txt'", "dataset.text_field"});
  refuse("a.jsonl", "{\"query\": \"a\"}\n", 1, {"a.jsonl:1:", "'response'"});
  refuse("a.jsonl", "{\"text\": 5}\n", 1, {"a.jsonl:1:", "'text'", "string"});
  refuse("a.jsonl", "5\n", 1, {"a.jsonl:1:", "object"});
  refuse("a.jsonl", "{\"text\": \"a\", \"n\": 1e999}\n", 1, {"a.jsonl:1:", "1e999"});
  refuse("a.jsonl", "{\"text\": \"a\xff\"}\n", 1, {"a.jsonl:1:", "UTF-8", "iconv"});
  refuse("a.json", "[{\"text\": \"a\"},\n{\"text\" \"b\"}]\n", 1, {"a.json:2: malformed JSON"});
  refuse("a.json", "[{\"text\": \"a\xff\"}]\n", 1, {"a.json:1:", "UTF-8"});
  refuse("a.json", "[]", 1, {"a.json: no examples"});
  refuse("a.csv", "text\na\n", 2, {"a.csv:", "'.csv'", "not supported yet", ".jsonl"});
  refuse("a.parquet", "PAR1", 2, {"a.parquet:", "'.parquet'", "not supported yet"});
  ExpectRefused({"dataset.path=nothere.txt"}, 2, {"nothere.txt: no such file"});
  ExpectRefused({"dataset.path=", "dataset.name=gsm8k"}, 2, {"dataset_info.json", "dataset_dir"});
}

TEST_F(SftErrors, OutputFolder) {
  ExpectRefused({"training.output_dir=data.txt"}, 1, {"data.txt:", "Not a directory"});
  ExpectRefused({"training.output_dir=data.txt/x"}, 1, {"data.txt/x:", "Not a directory"});
  ExpectRefused({"training.output_dir=/proc/x"}, 1, {"/proc/x:", "choose another"});
  ExpectRefused({"training.output_dir="}, 2, {"training.output_dir"});
  for (const char* name : {"config.yaml", "schedule.json", "metrics.jsonl", "export"}) {
    SCOPED_TRACE(name);
    std::filesystem::create_directory(*this / "old");
    Write(std::string("old/") + name, "precious");
    const auto before = Snapshot(*this / "old");
    ExpectRefused({"training.output_dir=old"}, 1, {"old:", name, "choose another"});
    EXPECT_EQ(Snapshot(*this / "old"), before);
    std::filesystem::remove_all(*this / "old");
  }
}

TEST_F(SftErrors, SmallestDeviceMemory) {
  const Outcome refused = Sft({"memory.device_memory_gb=0.0001", "training.num_steps=1"});
  ExpectError(refused, 2, {"memory.device_memory_gb", "smallest that works is ", "interval:1"});
  EXPECT_TRUE(Snapshot(*this / "run").empty());
  const std::string sentence = "smallest that works is ";
  const double smallest =
      std::stod(refused.err.substr(refused.err.find(sentence) + sentence.size()));
  ASSERT_GT(smallest, 0.0001);
  const auto cap = [](double gb) { return fmt::format("memory.device_memory_gb={:.6f}", gb); };
  ExpectRefused({cap(smallest - 1e-6), "training.num_steps=1"}, 2,
                {fmt::format("smallest that works is {:.6f} GB", smallest)});
  ExpectDone(Sft({cap(smallest), "training.num_steps=1"}));
  const Json metrics = ParseJson(ReadFile(*this / "run" / "metrics.jsonl"), "metrics.jsonl");
  EXPECT_LE(metrics.at("device_bytes").get<double>(), smallest * 1e9);
  EXPECT_GT(metrics.at("device_bytes").get<double>(), (smallest - 1e-6) * 1e9);
}

// What a run wrote about its schedule, with one thing wrong in it.
TEST_F(SftErrors, ScheduleFiles) {
  ExpectDone(Sft({"training.num_steps=1", "training.output_dir=first"}));
  const Json good = ReadJsonFile(*this / "first" / "schedule.json");
  const auto refuse = [&](const std::function<void(Json&)>& damage, const Words& parts) {
    Json json = good;
    damage(json);
    SCOPED_TRACE(testing::PrintToString(parts));
    Write("s.json", json.dump(2));
    ExpectRefused({"memory.schedule=s.json"}, 2, parts);
  };
  refuse([](Json& s) { s["model_shape"] = std::string(32, '0'); }, {"s.json", "another shape"});
  refuse([](Json& s) { s["version"] = 2; }, {"s.json", "version 2"});
  refuse([](Json& s) { s["version"] = 1.5; }, {"s.json: version: 1.5"});
  refuse([](Json& s) { s["layers"]["layers.0"]["qkv"] = "gpu"; },
         {"s.json", "layers.0", "qkv", "'gpu'", "recompute"});
  refuse([](Json& s) { s["layers"]["layers.0"]["qkv"] = "nvme"; }, {"s.json", "qkv", "host"});
  refuse([](Json& s) { s["layers"]["layers.0"]["qkvv"] = "host"; },
         {"s.json", "layers.0", "'qkvv'"});
  refuse([](Json& s) { s["layers"]["layers.0"].erase("qkv"); }, {"s.json", "layers.0", "'qkv'"});
  refuse([](Json& s) { s["layers"]["layers.7"] = s["layers"]["layers.0"]; }, {"'layers.7'"});
  refuse([](Json& s) { s["units"]["layers.7"] = s["units"]["layers.0"]; }, {"'layers.7'"});
  refuse([](Json& s) { s["units"].erase("head"); }, {"s.json: units", "'head' is missing"});
  refuse([](Json& s) { s.erase("units"); }, {"s.json: 'units' is missing"});
  refuse([](Json& s) { s["units"]["head"]["update"] = "gpu"; }, {"head", "update", "'gpu'"});
  refuse([](Json& s) { s["units"]["head"]["states"] = "nvme"; }, {"head", "states"});
  refuse([](Json& s) { s["units"]["head"]["weights"] = true; }, {"head", "weights"});
  refuse([](Json& s) { s["micro_batch_tokens"] = 65; },
         {"s.json: micro_batch_tokens", "65", "memory.micro_batch_tokens"});
  for (const char* passes : {"[]", "[0, 6]", "[-1, 7]", "[100]", "[9223372036854775807, 7]"}) {
    refuse([&](Json& s) { s["passes"] = Json::parse(passes); }, {"s.json", "passes"});
  }
  refuse([](Json& s) { s["passes"] = {1.5, 1.5}; }, {"s.json: passes", "type"});
  Write("s.json", "{\n\"version\": 1,\n");
  ExpectRefused({"memory.schedule=s.json"}, 1, {"s.json:3: malformed JSON"});
  ExpectRefused({"memory.schedule=nothere.json"}, 2, {"'nothere.json'"});
}

}  // namespace
}  // namespace lazytrain
