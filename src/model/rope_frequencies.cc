#include "model/rope_frequencies.h"

#include <array>
#include <cmath>
#include <numbers>
#include <string>
#include <string_view>

#include "core/error.h"

namespace lazytrain {
namespace {

using Inverse = std::vector<float>;

double PositiveNumber(const HubConfig& config, std::string_view key) {
  const double value = config.Number(key);
  if (!(value > 0.0) || !std::isfinite(value)) {
    throw RunError("{}: '{}' is {}; it has to be a positive number", config.place(), key, value);
  }
  return value;
}

void Unscaled(const HubConfig&, Inverse&) {}

void Linear(const HubConfig& scaling, Inverse& inverse) {
  const auto factor = static_cast<float>(PositiveNumber(scaling, "factor"));
  for (float& frequency : inverse) frequency /= factor;
}

void Llama3(const HubConfig& scaling, Inverse& inverse) {
  const double factor = PositiveNumber(scaling, "factor");
  const double low = PositiveNumber(scaling, "low_freq_factor");
  const double high = PositiveNumber(scaling, "high_freq_factor");
  const double context = PositiveNumber(scaling, "original_max_position_embeddings");
  if (high <= low) {
    throw RunError("{}: 'high_freq_factor' has to be above 'low_freq_factor'", scaling.place());
  }
  for (float& frequency : inverse) {
    const double wavelength = 2.0 * std::numbers::pi / frequency;
    if (wavelength < context / high) continue;
    const double blend =
        wavelength > context / low ? 0.0 : (context / wavelength - low) / (high - low);
    frequency = static_cast<float>((1.0 - blend) * frequency / factor + blend * frequency);
  }
}

struct Scaling {
  std::string_view type;
  void (*apply)(const HubConfig& scaling, Inverse& inverse);
};

constexpr std::array kScalings = {Scaling{"default", Unscaled}, Scaling{"linear", Linear},
                                  Scaling{"llama3", Llama3}};

}  // namespace

RopeFrequencies ReadRopeFrequencies(const HubConfig& config, int64_t rotary_channels) {
  const std::optional<HubConfig> parameters = config.Object("rope_parameters");
  const std::optional<HubConfig> scaling = parameters ? parameters : config.Object("rope_scaling");
  const HubConfig& with_theta = parameters && parameters->Has("rope_theta") ? *parameters : config;
  const double theta =
      with_theta.Has("rope_theta") ? PositiveNumber(with_theta, "rope_theta") : 10000.0;

  RopeFrequencies result;
  for (int64_t i = 0; i < rotary_channels; i += 2) {
    const double exponent = static_cast<double>(i) / static_cast<double>(rotary_channels);
    result.inverse.push_back(static_cast<float>(1.0 / std::pow(theta, exponent)));
  }
  if (!scaling) return result;
  const std::string type = scaling->StringOr("rope_type", scaling->StringOr("type", "default"));
  for (const Scaling& known : kScalings) {
    if (known.type != type) continue;
    known.apply(*scaling, result.inverse);
    return result;
  }
  throw RunError("{}: the rope scaling '{}' is not supported; default, linear and llama3 are",
                 scaling->place(), type);
}

}  // namespace lazytrain
