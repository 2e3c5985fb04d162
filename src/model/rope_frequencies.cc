#include "model/rope_frequencies.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <optional>
#include <string>
#include <string_view>

#include "core/error.h"

namespace lazytrain {
namespace {

double PositiveNumber(const HubConfig& config, std::string_view key) {
  const double value = config.Number(key);
  if (!(value > 0.0) || !std::isfinite(value)) {
    throw RunError("{}: '{}' is {}; it has to be a positive number", config.place(), key, value);
  }
  return value;
}

int64_t MaxPositions(const HubConfig& config) {
  return config.PositiveIntOr("max_position_embeddings", 2048);
}

// theta^(2 pair / channels), which is 1 over the frequency; exponent and power are float32.
float Period(double theta, int64_t channels, size_t pair) {
  const float exponent = static_cast<float>(2 * pair) / static_cast<float>(channels);
  return static_cast<float>(std::pow(theta, double{exponent}));
}

// What a scaling works on.
struct Rope {
  const HubConfig& config;      // the model's
  const HubConfig& parameters;  // rope_scaling or rope_parameters
  double theta;
  int64_t channels;

  // Tokens of context before scaling. Phi-3 keeps them beside the parameters, not in them.
  double OriginalContext() const {
    constexpr std::string_view kKey = "original_max_position_embeddings";
    if (config.Has(kKey)) return PositiveNumber(config, kKey);
    return parameters.Has(kKey) ? PositiveNumber(parameters, kKey)
                                : static_cast<double>(MaxPositions(config));
  }
  // How far scaling stretches the context.
  double Factor() const {
    return parameters.Has("factor") ? PositiveNumber(parameters, "factor")
                                    : static_cast<double>(MaxPositions(config)) / OriginalContext();
  }
};

void Unscaled(const Rope&, RopeFrequencies&) {}

void Linear(const Rope& rope, RopeFrequencies& result) {
  const auto factor = static_cast<float>(PositiveNumber(rope.parameters, "factor"));
  for (float& frequency : result.inverse) frequency /= factor;
}

void Dynamic(const Rope& rope, RopeFrequencies& result) {
  if (rope.channels < 4) {
    throw RunError("{}: dynamic scaling needs 4 rotary channels or more, not {}",
                   rope.parameters.place(), rope.channels);
  }
  result.dynamic_factor = PositiveNumber(rope.parameters, "factor");
  result.long_beyond = MaxPositions(rope.config);
}

void Llama3(const Rope& rope, RopeFrequencies& result) {
  const auto factor = static_cast<float>(PositiveNumber(rope.parameters, "factor"));
  const auto low = static_cast<float>(PositiveNumber(rope.parameters, "low_freq_factor"));
  const auto high = static_cast<float>(PositiveNumber(rope.parameters, "high_freq_factor"));
  const auto context = static_cast<float>(rope.OriginalContext());
  if (high <= low) {
    throw RunError("{}: 'high_freq_factor' has to be above 'low_freq_factor'",
                   rope.parameters.place());
  }
  for (float& frequency : result.inverse) {
    const float wavelength = 1.0f / frequency * (2.0f * std::numbers::pi_v<float>);
    if (wavelength < context / high) continue;
    const float blend =
        wavelength > context / low ? 0.0f : (1.0f / wavelength * context - low) / (high - low);
    frequency = (1.0f - blend) * frequency / factor + blend * frequency;
  }
}

// Factor on the logits' temperature that YaRN found, for a stretch by `scale`.
double YarnMagnitude(double scale, double weight) {
  return scale <= 1.0 ? 1.0 : 0.1 * weight * std::log(scale) + 1.0;
}

double YarnScaling(const Rope& rope, double factor) {
  const HubConfig& parameters = rope.parameters;
  if (parameters.Has("attention_factor")) return parameters.Number("attention_factor");
  const double weight = parameters.NumberOr("mscale", 0.0);
  const double weight_all = parameters.NumberOr("mscale_all_dim", 0.0);
  if (weight != 0.0 && weight_all != 0.0) {
    return YarnMagnitude(factor, weight) / YarnMagnitude(factor, weight_all);
  }
  return YarnMagnitude(factor, 1.0);
}

// Channel pairs that turn more than beta_fast times in the original context keep their frequency,
// those below beta_slow are divided by `factor`, a linear ramp over the pairs lies between.
void Yarn(const Rope& rope, RopeFrequencies& result) {
  const double factor = rope.Factor();
  const double context = rope.OriginalContext();
  const auto channels = static_cast<double>(rope.channels);
  const auto pair_of_turns = [&](double turns) {
    return channels * std::log(context / (turns * 2.0 * std::numbers::pi)) /
           (2.0 * std::log(rope.theta));
  };
  const auto beta = [&](std::string_view key, double fallback) {
    const double value = rope.parameters.NumberOr(key, fallback);
    return value == 0.0 ? fallback : value;
  };
  double low = pair_of_turns(beta("beta_fast", 32.0));
  double high = pair_of_turns(beta("beta_slow", 1.0));
  if (rope.parameters.BoolOr("truncate", true)) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, channels - 1.0);
  if (low == high) high += 0.001;
  const auto first = static_cast<float>(low);
  const auto width = static_cast<float>(high - low);
  for (size_t pair = 0; pair < result.inverse.size(); ++pair) {
    const float ramp = std::clamp((static_cast<float>(pair) - first) / width, 0.0f, 1.0f);
    const float kept = 1.0f - ramp;
    const float divided =
        1.0f / (static_cast<float>(factor) * Period(rope.theta, rope.channels, pair));
    result.inverse[pair] = divided * (1.0f - kept) + result.inverse[pair] * kept;
  }
  result.scaling = static_cast<float>(YarnScaling(rope, factor));
}

std::vector<float> DividedFrequencies(const Rope& rope, std::string_view key) {
  const Json factors = rope.parameters.json().value(key, Json());
  const auto pairs = static_cast<size_t>(rope.channels / 2);
  if (!factors.is_array() || factors.size() != pairs) {
    throw RunError("{}: '{}' has to list {} numbers, one for each pair of rotary channels",
                   rope.parameters.place(), key, pairs);
  }
  std::vector<float> inverse;
  for (size_t pair = 0; pair < pairs; ++pair) {
    if (!factors[pair].is_number() || factors[pair].get<double>() <= 0.0) {
      throw RunError("{}: '{}' has to list positive numbers", rope.parameters.place(), key);
    }
    inverse.push_back(1.0f /
                      (factors[pair].get<float>() * Period(rope.theta, rope.channels, pair)));
  }
  return inverse;
}

void LongRope(const Rope& rope, RopeFrequencies& result) {
  const double context = rope.OriginalContext();
  const double factor = rope.Factor();
  result.inverse = DividedFrequencies(rope, "short_factor");
  result.long_inverse = DividedFrequencies(rope, "long_factor");
  result.long_beyond = static_cast<int64_t>(context);
  const double stretch =
      factor <= 1.0 ? 1.0 : std::sqrt(1.0 + std::log(factor) / std::log(context));
  result.scaling = static_cast<float>(rope.parameters.NumberOr("attention_factor", stretch));
}

struct Scaling {
  std::string_view type;
  void (*apply)(const Rope& rope, RopeFrequencies& result);
};

constexpr std::array kScalings = {
    Scaling{"default", Unscaled},  Scaling{"mrope", Unscaled}, Scaling{"linear", Linear},
    Scaling{"dynamic", Dynamic},   Scaling{"llama3", Llama3},  Scaling{"yarn", Yarn},
    Scaling{"longrope", LongRope}, Scaling{"su", LongRope},
};

// The object that describes the scaling, empty if there is none.
HubConfig FindParameters(const HubConfig& config, std::string_view layer_type) {
  const std::optional<HubConfig> old = config.Object("rope_scaling");
  if (old && !old->json().empty()) return *old;
  const std::optional<HubConfig> parameters = config.Object("rope_parameters");
  if (!parameters) return HubConfig(Json::object(), config.place());
  if (!layer_type.empty()) {
    if (const std::optional<HubConfig> own = parameters->Object(layer_type)) return *own;
  }
  return *parameters;
}

// Where one set is for all layers, sets by layer type would be passed over in silence.
void RefuseLayerTypes(const HubConfig& parameters) {
  for (const auto& [key, value] : parameters.json().items()) {
    if (!value.is_object()) continue;
    throw RunError(
        "{}: '{}' is an object; this architecture has one set of parameters for all layers",
        parameters.place(), key);
  }
}

std::string TypeOf(const HubConfig& parameters) {
  return parameters.StringOr("rope_type", parameters.StringOr("type", "default"));
}

}  // namespace

RopeFrequencies UnscaledFrequencies(double theta, int64_t rotary_channels) {
  RopeFrequencies result;
  for (size_t pair = 0; pair < static_cast<size_t>(rotary_channels / 2); ++pair) {
    result.inverse.push_back(1.0f / Period(theta, rotary_channels, pair));
  }
  return result;
}

RopeFrequencies ReadRopeFrequencies(const HubConfig& config, int64_t rotary_channels,
                                    const RopeDefaults& defaults) {
  const HubConfig parameters = FindParameters(config, defaults.layer_type);
  if (defaults.layer_type.empty()) RefuseLayerTypes(parameters);
  const HubConfig& with_theta = parameters.Has("rope_theta") ? parameters : config;
  const double theta =
      with_theta.Has("rope_theta") ? PositiveNumber(with_theta, "rope_theta") : defaults.theta;
  const Rope rope{config, parameters, theta, rotary_channels};
  RopeFrequencies result = UnscaledFrequencies(theta, rotary_channels);
  const std::string type = TypeOf(parameters);
  for (const Scaling& known : kScalings) {
    if (known.type != type) continue;
    known.apply(rope, result);
    return result;
  }
  throw RunError(
      "{}: the rope scaling '{}' is not supported; default, linear, dynamic, llama3, yarn and "
      "longrope are",
      parameters.place(), type);
}

int64_t ContextTokens(const HubConfig& config) {
  const HubConfig parameters = FindParameters(config, "full_attention");
  if (TypeOf(parameters) != "dynamic") return MaxPositions(config);
  const double tokens =
      static_cast<double>(MaxPositions(config)) * PositiveNumber(parameters, "factor");
  return static_cast<int64_t>(std::clamp(tokens, 1.0, static_cast<double>(INT32_MAX)));
}

int64_t RotaryChannels(const HubConfig& config, int64_t head_dim, double fallback) {
  constexpr std::string_view kKey = "partial_rotary_factor";
  const HubConfig parameters = FindParameters(config, "");
  const double factor =
      parameters.Has(kKey) ? parameters.Number(kKey) : config.NumberOr(kKey, fallback);
  const auto channels = static_cast<int64_t>(static_cast<double>(head_dim) * factor);
  if (channels < 2 || channels > head_dim || channels % 2 != 0) {
    throw RunError("{}: '{}' {} of 'head_dim' {} has to give an even number of rotary channels",
                   config.place(), kKey, factor, head_dim);
  }
  return channels;
}

}  // namespace lazytrain
