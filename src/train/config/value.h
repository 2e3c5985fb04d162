// Values of options as text and back.
#pragma once

#include <string>

#include "train/config/options.h"
#include "train/config/settings.h"

namespace lazytrain {

// Stores the setting's value in the option's field. Throws Error (kUsage)
// "<place>: <key>: <what is wrong>; give <what is expected>".
void StoreValue(const Option& option, const Setting& setting, Config* config);

// The field's value as YAML that StoreValue reads back to the same value.
std::string FormatValue(const Option& option, const Config& config);

// "a whole number from 0 to 1000", "true or false", "constant, linear, cosine or wsd".
std::string Expected(const Option& option);

// "a, b or c".
std::string JoinWords(const std::vector<std::string_view>& words);

}  // namespace lazytrain
