#include "train/sft.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>

#include "core/error.h"
#include "core/log.h"
#include "core/units.h"
#include "data/examples.h"
#include "data/registry.h"
#include "data/sampler.h"
#include "optim/learning_rate.h"
#include "report/lane_table.h"
#include "report/trace.h"
#include "train/export.h"
#include "train/gemm_table.h"
#include "train/model_folder.h"
#include "train/plan_explain.h"
#include "train/progress.h"
#include "train/replan.h"
#include "train/run_plan.h"
#include "train/step.h"
#include "train/stop_signal.h"
#include "train/throughput.h"

namespace lazytrain {
namespace {

// The documents of a run and the order in which steps take them.
class TrainingData {
 public:
  TrainingData(const Config& config, const TokenizerFolder& tokenizer, const Capacity& capacity)
      : capacity_(capacity) {
    const FolderEncoder encoder(tokenizer);
    ExampleOptions options;
    options.text_field = config.dataset.text_field;
    options.query_field = config.dataset.query_field;
    options.response_field = config.dataset.response_field;
    options.train_on_prompt = config.dataset.train_on_prompt;
    options.max_seq_len = config.dataset.max_seq_len;
    ThreadPool pool(static_cast<int>(std::max<int64_t>(1, config.dataset.num_workers)));
    set_ = LoadDocuments(Sources(config.dataset), encoder, options, pool);
    SamplerOptions sampling;
    sampling.seed = static_cast<uint64_t>(config.training.seed);
    sampling.batch_size = config.training.batch_size;
    sampling.batch_tokens = config.training.batch_tokens;
    sampling.gradient_accumulation_steps = config.training.gradient_accumulation_steps;
    sampling.num_epochs = config.training.num_steps > 0 ? 0 : config.training.num_epochs;
    sampler_ = std::make_unique<Sampler>(Lengths(set_.documents), sampling);
    steps_ = config.training.num_steps > 0 ? config.training.num_steps
                                           : sampler_->StepsInEpochs(config.training.num_epochs);
  }

  int64_t steps() const { return steps_; }
  const DocumentSet& set() const { return set_; }

  std::vector<MicroBatch> NextStep() {
    std::vector<DocumentView> documents;
    for (const int64_t index : sampler_->NextStep()) {
      const Document& document = set_.documents[static_cast<size_t>(index)];
      documents.push_back({document.input_ids, document.labels});
    }
    return MakeStep(documents, capacity_);
  }

 private:
  static std::vector<DatasetSource> Sources(const DatasetSettings& dataset) {
    if (!dataset.path.empty()) return {DatasetAt(dataset.path)};
    std::vector<DatasetSource> sources;
    for (const std::string& name : dataset.name) {
      sources.push_back(FindDataset(name, dataset.dataset_dir));
    }
    return sources;
  }

  Capacity capacity_;
  DocumentSet set_;
  std::unique_ptr<Sampler> sampler_;
  int64_t steps_ = 0;
};

// The folder of a run: refused when it holds one, made when the first file goes in.
class RunFolder {
 public:
  explicit RunFolder(const Config& config) : folder_(config.training.output_dir) {
    const std::string& metrics = config.logging.metrics;
    for (const char* name : {"config.yaml", "schedule.json", kGemmTable, "plan.html", "export"}) {
      if (metrics == name) {
        throw UsageError("{}: '{}' is another file of the run; choose another name",
                         config.Place("logging.metrics"), name);
      }
      RefuseIfThere(name);
    }
    RefuseIfThere(metrics);
  }
  void Make() const { MakeWritableFolder(folder_); }
  Path operator/(const std::string& name) const { return folder_ / name; }

 private:
  void RefuseIfThere(const std::string& name) const {
    if (!std::filesystem::exists(folder_ / name)) return;
    throw RunError(
        "{}: this folder holds a run already ({} is there); choose another training.output_dir",
        folder_.string(), name);
  }

  Path folder_;
};

struct StepRecord {
  StepReport report;
  StepTimeline predicted;
  StepRows rows;
  double seconds = 0;  // of the whole step, batch making included
  double learning_rate = 0;
  int64_t tokens = 0;
  int64_t predicted_tokens = 0;
};

class SftRun {
 public:
  explicit SftRun(const Config& config)
      : config_(config),
        folder_(config),
        model_folder_(FindModelFolder(config.model.name, config.Place("model.name"))),
        hub_(HubConfig::FromFolder(model_folder_)),
        device_(OpenDevice(config)),
        plan_(MakeRunPlan(config, hub_, *device_)),
        tokenizer_(LoadTokenizer(model_folder_)),
        data_(config, tokenizer_, plan_.programs->training().capacity) {
    CheckVocabulary();
    rates_ = {config.training.learning_rate, config.training.lr_scheduler,
              WarmupSteps(config.training, data_.steps()), data_.steps()};
  }

  int Run() {
    // Everything that can be wrong with the input is found before the first file is written.
    std::optional<Checkpoint> checkpoint;
    if (config_.model.init == "pretrained") {
      checkpoint.emplace(model_folder_);
      CheckNothingLeftOver(*checkpoint, plan_.programs->model());
    }
    engine_ =
        std::make_unique<TrainingEngine>(*device_, *plan_.programs, plan_.demand, plan_.engine);
    engine_->LoadWeights([&](const UnitSpec& unit, const UnitMemory& memory) {
      if (checkpoint) {
        ReadUnit(*checkpoint, unit, memory);
      } else {
        InitializeUnit(unit, static_cast<uint64_t>(config_.training.seed),
                       hub_.NumberOr("initializer_range", 0.02), memory);
      }
    });
    folder_.Make();
    WriteDescription();
    replanner_ = std::make_unique<Replanner>(config_, plan_, KernelsFor(*device_));
    return Train();
  }

 private:
  static int64_t WarmupSteps(const TrainingSettings& training, int64_t steps) {
    if (training.warmup_steps > 0) return training.warmup_steps;
    return std::llround(std::ceil(training.warmup_ratio * static_cast<double>(steps)));
  }

  void CheckVocabulary() const {
    if (tokenizer_.tokenizer.vocab_size() <= plan_.programs->model().vocab_size) return;
    for (const Document& document : data_.set().documents) {
      for (const int32_t id : document.input_ids) {
        if (id < plan_.programs->model().vocab_size) continue;
        throw RunError(
            "{}: token {} of the data is beyond the model's vocab_size {}; tokenizer and "
            "model do not belong together",
            (model_folder_ / "tokenizer.json").string(), id, plan_.programs->model().vocab_size);
      }
    }
  }

  // Returns the seconds of a full step.
  double WriteSchedule() const {
    const ExplainedPlan explained(config_, plan_);
    const double seconds = explained.report().timeline->seconds;
    WriteFile(folder_ / "schedule.json", DescribePlan(plan_, plan_.cost, seconds).dump(2) + "\n");
    WriteFile(folder_ / "plan.html", PlanPage(explained.report()));
    return seconds;
  }

  void WriteDescription() {
    const Program& program = plan_.programs->training();
    WriteFile(folder_ / "config.yaml", ToYaml(config_));
    const double predicted = WriteSchedule();
    const ModelGraph& model = plan_.programs->model();
    const DocumentSet& set = data_.set();
    fmt::print("model     {} ({}, {:.3f} M parameters, {})\n", model_folder_.string(),
               model.architecture, static_cast<double>(model.ParameterCount()) / 1e6,
               config_.model.dtype);
    fmt::print("data      {} documents ({} truncated, {} dropped)\n", set.documents.size(),
               set.truncated, set.dropped);
    fmt::print("device    {}, cap {}\n", device_->description(), FormatBytes(plan_.device_cap));
    fmt::print("hardware  {}\n", plan_.cost_origin);
    fmt::print("schedule  {}: up to {} micro-batches of {} tokens, {} pass{}\n",
               plan_.programs->schedule().name, program.capacity.micro_batches,
               program.capacity.micro_batch_tokens, plan_.programs->schedule().passes.size(),
               plan_.programs->schedule().passes.size() == 1 ? "" : "es");
    fmt::print("planned   peak {} on the device, {} on the host; {} a full step\n",
               FormatBytes(plan_.device_total()), FormatBytes(plan_.host_bytes()),
               FormatSeconds(predicted));
    std::fflush(stdout);
  }

  int Train() {
    const StopSignal stop;
    LineWriter metrics(folder_ / config_.logging.metrics);
    Progress progress(config_.logging.log_interval);
    int64_t done = 0;
    double seconds = 0;
    while (done < data_.steps() && !stop.requested()) {
      const StepRecord record = OneStep(done);
      ++done;
      if (done == 1) WriteGemmTable(folder_ / kGemmTable, *device_, plan_.key.libraries);
      if (record.report.skipped) {
        progress.Finish();
        Warn("step {}: a gradient is not finite; the step is skipped", done);
      }
      metrics.WriteLine(Metrics(done, record).dump());
      seconds += record.seconds;
      const ProgressLine line = Line(done, record, seconds);
      progress.Show(line);
      MaybeTrace(done, record);
      Remember(done, record);
      if (replanner_ == nullptr || done == data_.steps()) continue;
      replanner_->Observe(record.report.timeline, record.rows, line.seconds_left);
      if (!replanner_->ready()) continue;
      progress.Finish();
      PlanAgain(done);
    }
    progress.Finish();
    replanner_.reset();
    engine_->Drain();
    WriteGemmTable(folder_ / kGemmTable, *device_, plan_.key.libraries);
    ExportModel(*engine_, model_folder_, folder_ / "export");
    Summarize(done);
    return stop.requested() && done < data_.steps() ? 130 : 0;
  }

  StepRecord OneStep(int64_t index) {
    const auto begin = std::chrono::steady_clock::now();
    const std::vector<MicroBatch> step = data_.NextStep();
    StepRecord record;
    record.learning_rate = LearningRateAt(rates_, index);
    record.rows = RowsOf(step);
    for (const MicroBatch& batch : step) record.tokens += batch.tokens();
    for (const MicroBatch& batch : step) record.predicted_tokens += batch.predicted_tokens();
    record.report = engine_->Step(step, record.learning_rate);
    record.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    record.predicted = Simulate(plan_.programs->training(), record.rows, plan_.cost);
    return record;
  }

  // Takes what planning with measured times has come to: the run goes on under a better schedule of
  // the same bits, and says if there is one of others.
  void PlanAgain(int64_t done) {
    Replanner::Result result = replanner_->Take();
    if (result.is_reported) {
      const Schedule& other = result.other.schedule;
      Note(
          "step {}: by measured times a step could take {} instead of {} with "
          "memory.micro_batch_tokens={} memory.passes={}; that changes bits, so it takes a new run",
          done, FormatSeconds(result.other.simulated),
          FormatSeconds(result.replaces ? result.better.simulated : result.current),
          other.micro_batch_tokens, other.passes.size());
    }
    if (!result.replaces) return;
    fmt::print("replanned at step {}: {} a full step, by measured times, instead of {}\n", done,
               FormatSeconds(result.better.simulated), FormatSeconds(result.current));
    // The programs go with the engine that runs them.
    TrainingState state = engine_->Leave();
    engine_.reset();
    replanner_.reset();
    Replace(plan_, std::move(result.better), result.cost);
    engine_ = std::make_unique<TrainingEngine>(*device_, *plan_.programs, plan_.demand,
                                               plan_.engine, std::move(state));
    WriteSchedule();
  }

  static double TokensPerSecond(const StepRecord& record) {
    return static_cast<double>(record.tokens) / record.seconds;
  }

  double Tflops(const StepRecord& record) const {
    return TrainingTflops(plan_.programs->model().ParameterCount(), TokensPerSecond(record));
  }

  Json Metrics(int64_t step, const StepRecord& record) const {
    return {{"step", step},
            {"loss", record.report.loss},
            {"grad_norm", record.report.gradient_norm},
            {"learning_rate", record.learning_rate},
            {"skipped", record.report.skipped},
            {"tokens", record.tokens},
            {"predicted_tokens", record.predicted_tokens},
            {"seconds", record.seconds},
            {"step_seconds", record.report.timeline.seconds},
            {"predicted_step_seconds", record.predicted.seconds},
            {"tokens_per_second", TokensPerSecond(record)},
            {"tflops", Tflops(record)},
            {"device_bytes", engine_->bytes(kDeviceSpace)},
            {"host_bytes", engine_->host_bytes()},
            {"lanes", LanesToJson(plan_.programs->training(), record.report.timeline)}};
  }

  ProgressLine Line(int64_t done, const StepRecord& record, double seconds) const {
    ProgressLine line;
    line.step = done;
    line.steps = data_.steps();
    line.loss = record.report.loss;
    line.learning_rate = record.learning_rate;
    line.tokens_per_second = TokensPerSecond(record);
    line.tflops = Tflops(record);
    line.device_bytes = engine_->bytes(kDeviceSpace);
    line.host_bytes = engine_->host_bytes();
    line.seconds_left =
        seconds / static_cast<double>(done) * static_cast<double>(data_.steps() - done);
    return line;
  }

  void MaybeTrace(int64_t done, const StepRecord& record) const {
    const std::vector<int64_t>& steps = config_.logging.trace_steps;
    if (std::find(steps.begin(), steps.end(), done) == steps.end()) return;
    WriteTrace(folder_ / fmt::format("trace-step-{}.json", done), plan_.programs->training(),
               record.report.timeline, fmt::format("measured, step {}", done));
    WriteTrace(folder_ / fmt::format("trace-step-{}-predicted.json", done),
               plan_.programs->training(), record.predicted,
               fmt::format("predicted, step {}", done));
  }

  void Remember(int64_t done, const StepRecord& record) {
    if (done == 1) first_loss_ = record.report.loss;
    last_loss_ = record.report.loss;
    measured_.push_back(record.report.timeline.seconds);
    predicted_.push_back(record.predicted.seconds);
    last_ = record;
  }

  void Summarize(int64_t done) const {
    if (done > 0) {
      fmt::print("loss      {:.4f} at step 1, {:.4f} at step {}\n", first_loss_, last_loss_, done);
      const double measured = Median(measured_);
      const double predicted = Median(predicted_);
      fmt::print("step time {} measured, {} predicted (medians, {:+.1f}%)\n",
                 FormatSeconds(measured), FormatSeconds(predicted),
                 100.0 * (measured - predicted) / predicted);
      fmt::print("{}",
                 LaneTable(plan_.programs->training(), last_.report.timeline, last_.predicted));
    }
    fmt::print("peak      {} of device memory used, {} planned\n",
               FormatBytes(engine_->device_bytes_used() + plan_.device_fixed),
               FormatBytes(plan_.device_total()));
    const int64_t by_driver = device_->UsedBytes();
    if (by_driver > 0) fmt::print("driver    {} held by this process\n", FormatBytes(by_driver));
    fmt::print("model     {}\n", (folder_ / "export").string());
  }

  const Config& config_;
  RunFolder folder_;
  Path model_folder_;
  HubConfig hub_;
  std::unique_ptr<Device> device_;
  RunPlan plan_;
  TokenizerFolder tokenizer_;
  TrainingData data_;
  LearningRateSettings rates_;
  std::unique_ptr<TrainingEngine> engine_;
  std::unique_ptr<Replanner> replanner_;

  double first_loss_ = 0;
  double last_loss_ = 0;
  std::vector<double> measured_;
  std::vector<double> predicted_;
  StepRecord last_;
};

}  // namespace

int RunSft(const Config& config) { return SftRun(config).Run(); }

}  // namespace lazytrain
