#include "train/config/value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "core/error.h"
#include "core/nearest.h"

namespace lazytrain {
namespace {

template <typename... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <typename... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

// Text -> value; nothing when the text is no such value. The whole text counts, and no locale.
template <typename Number>
std::optional<Number> ParseNumber(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!std::isfinite(static_cast<double>(value))) return std::nullopt;
  return value;
}

// As YAML 1.2 spells them: `yes` and `on` are strings.
std::optional<bool> ParseBool(std::string_view text) {
  for (const std::string_view word : {"true", "True", "TRUE"}) {
    if (text == word) return true;
  }
  for (const std::string_view word : {"false", "False", "FALSE"}) {
    if (text == word) return false;
  }
  return std::nullopt;
}

// The shortest text that is read back as the same number, and as a number by YAML 1.1 readers,
// which want a point in it.
std::string FormatNumber(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find('.') != std::string::npos) return text;
  const size_t exponent = text.find('e');
  return text.insert(exponent == std::string::npos ? text.size() : exponent, ".0");
}

// Quoted unless it is plainly a name or a path.
std::string FormatString(std::string_view text) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' ||
           c == '.' || c == '_' || c == '-';
  };
  const bool begins_plain =
      !text.empty() && (std::isalpha(static_cast<unsigned char>(text[0])) || text[0] == '/');
  bool reads_as_other = ParseBool(text).has_value();
  for (const std::string_view word : {"null", "Null", "NULL"}) reads_as_other |= text == word;
  if (begins_plain && !reads_as_other && std::all_of(text.begin(), text.end(), is_plain)) {
    return std::string(text);
  }
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

template <typename T, typename Format>
std::string FormatList(const std::vector<T>& items, const Format& format) {
  std::string list;
  for (const T& item : items) list += (list.empty() ? "" : ", ") + format(item);
  return "[" + list + "]";
}

std::string RangeText(const Range& range) {
  const bool has_low = std::isfinite(range.low);
  const bool has_high = std::isfinite(range.high);
  const auto number = [](double value) { return fmt::format("{:.15g}", value); };
  if (has_low && has_high && !range.low_open && !range.high_open) {
    return fmt::format(" from {} to {}", number(range.low), number(range.high));
  }
  std::string text;
  if (has_low) {
    text = fmt::format(" {} {}", range.low_open ? "above" : "of at least", number(range.low));
  }
  if (has_high) {
    const std::string_view at_most = has_low ? "at most" : "of at most";
    text += fmt::format("{} {} {}", has_low ? " and" : "", range.high_open ? "below" : at_most,
                        number(range.high));
  }
  return text;
}

// One setting being stored.
class Store {
 public:
  Store(const Option& option, const Setting& setting) : option_(option), setting_(setting) {}

  void Into(std::string* value) const {
    *value = String(One());
    CheckWord(*value);
  }
  void Into(std::vector<std::string>* value) const {
    value->clear();
    for (const Scalar& item : Items()) {
      // "" alone is no name at all.
      if (String(item).empty() && Items().size() == 1) return;
      if (item.text.empty()) Refuse("has an empty name");
      if (std::find(value->begin(), value->end(), item.text) != value->end()) {
        Refuse(fmt::format("has '{}' twice", Shown(item.text)));
      }
      value->push_back(item.text);
    }
  }
  void Into(bool* value) const { *value = Plain(One(), ParseBool(One().text)); }
  void Into(int64_t* value) const { *value = Integer(One()); }
  void Into(double* value) const { *value = Real(One()); }
  template <typename T>
  void Into(Auto<T>* value) const {
    value->reset();
    if (One().text == "auto") return;
    T given{};
    Into(&given);
    *value = given;
  }
  void Into(std::vector<int64_t>* value) const {
    value->clear();
    for (const Scalar& item : Items()) value->push_back(Integer(item));
  }
  // A whole number without a point or an exponent is an int64_t.
  void Into(std::variant<int64_t, double>* value) const {
    if (ParseNumber<int64_t>(One().text)) {
      *value = Integer(One());
    } else {
      *value = Real(One());
    }
  }

 private:
  using Kind = Setting::Kind;

  [[noreturn]] void Refuse(std::string_view what) const {
    throw UsageError("{}: {}; give {}", setting_.Where(), what, Expected(option_));
  }

  const std::vector<Scalar>& Items() const {
    if (setting_.kind == Kind::kEmpty) Refuse("has no value");
    if (setting_.kind == Kind::kMapping) Refuse("is a mapping of keys");
    return setting_.items;
  }
  const Scalar& One() const {
    const std::vector<Scalar>& items = Items();
    if (setting_.kind == Kind::kList) Refuse("is a list");
    return items.front();
  }

  // A value that is no string: quotes make it one.
  template <typename T>
  T Plain(const Scalar& scalar, const std::optional<T>& value) const {
    if (value && scalar.quoted)
      Refuse(fmt::format("\"{}\" is a quoted string", Shown(scalar.text)));
    if (!value) Refuse(fmt::format("'{}' is not allowed", Shown(scalar.text)));
    return *value;
  }
  template <typename T>
  T InRange(const Scalar& scalar, T value) const {
    if (!option_.range.Contains(static_cast<double>(value))) {
      Refuse(fmt::format("{} is out of range", Shown(scalar.text)));
    }
    return value;
  }
  int64_t Integer(const Scalar& scalar) const {
    return InRange(scalar, Plain(scalar, ParseNumber<int64_t>(scalar.text)));
  }
  double Real(const Scalar& scalar) const {
    return InRange(scalar, Plain(scalar, ParseNumber<double>(scalar.text)));
  }

  const std::string& String(const Scalar& scalar) const {
    for (const char c : scalar.text) {
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
        Refuse("has a line break or another control character");
      }
    }
    return scalar.text;
  }

  void CheckWord(const std::string& text) const {
    if (option_.words.empty() && option_.is_otherwise == nullptr) return;
    if (std::find(option_.words.begin(), option_.words.end(), text) != option_.words.end()) return;
    if (option_.is_otherwise != nullptr && option_.is_otherwise(text)) return;
    const std::vector<std::string> words(option_.words.begin(), option_.words.end());
    std::string hint;
    for (const std::string& nearest : NearestNames(text, words, 1)) {
      const bool is_close = EditDistance(text, nearest) <= 1 + nearest.size() / 4;
      if (is_close) hint = fmt::format(" (did you mean '{}'?)", nearest);
    }
    throw UsageError("{}: '{}' is not allowed; give {}{}", setting_.Where(), Shown(text),
                     Expected(option_), hint);
  }

  const Option& option_;
  const Setting& setting_;
};

}  // namespace

std::string JoinWords(const std::vector<std::string_view>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

std::string Expected(const Option& option) {
  const std::string range = RangeText(option.range);
  return std::visit(
      Overloaded{
          [&](Access<std::string>) {
            std::vector<std::string_view> words = option.words;
            if (!option.otherwise.empty()) words.push_back(option.otherwise);
            return words.empty() ? std::string("a string") : JoinWords(words);
          },
          [](Access<std::vector<std::string>>) { return std::string("a name or a list of names"); },
          [](Access<bool>) { return std::string("true or false"); },
          [](Access<Auto<bool>>) { return std::string("auto, true or false"); },
          [&](Access<int64_t>) { return "a whole number" + range; },
          [&](Access<Auto<int64_t>>) { return "auto or a whole number" + range; },
          [&](Access<std::vector<int64_t>>) { return "a list of whole numbers, each" + range; },
          [&](Access<double>) { return "a number" + range; },
          [&](Access<Auto<double>>) { return "auto or a number" + range; },
          [&](Access<std::variant<int64_t, double>>) { return "a number" + range; },
      },
      option.field);
}

void StoreValue(const Option& option, const Setting& setting, Config* config) {
  const Store store(option, setting);
  std::visit([&](auto access) { store.Into(&access(*config)); }, option.field);
}

std::string FormatValue(const Option& option, const Config& config) {
  const auto format = Overloaded{
      [&](const std::string& value) {
        const auto& words = option.words;
        const bool is_word = std::find(words.begin(), words.end(), value) != words.end();
        return is_word ? value : FormatString(value);
      },
      [](const std::vector<std::string>& value) {
        if (value.size() == 1) return FormatString(value.front());
        return value.empty() ? "\"\"" : FormatList(value, FormatString);
      },
      [](bool value) { return std::string(value ? "true" : "false"); },
      [](int64_t value) { return std::to_string(value); },
      [](double value) { return FormatNumber(value); },
      [](const std::vector<int64_t>& value) {
        return FormatList(value, [](int64_t item) { return std::to_string(item); });
      },
  };
  const auto format_any = Overloaded{
      format,
      [&]<typename T>(const Auto<T>& value) {
        return value ? format(*value) : std::string("auto");
      },
      [&](const std::variant<int64_t, double>& value) { return std::visit(format, value); },
  };
  // The accessors only name a member; nothing is written through them here.
  auto& fields = const_cast<Config&>(config);
  return std::visit([&](auto access) { return format_any(std::as_const(access(fields))); },
                    option.field);
}

}  // namespace lazytrain
