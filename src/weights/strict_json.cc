// The bridge from nlohmann's SAX events to JsonVisitor.
#include "weights/strict_json.h"

#include <fmt/format.h>

#include <exception>
#include <nlohmann/json.hpp>
#include <utility>

namespace fathom {
namespace {

constexpr size_t kMaxKeys = size_t{1} << 20;

// nlohmann's parser keeps its own small stack, so depth costs no recursion.
class SaxBridge final : public nlohmann::json_sax<nlohmann::json> {
 public:
  SaxBridge(size_t max_depth, JsonVisitor& visitor) : max_depth_(max_depth), visitor_(visitor) {}

  bool null() override { return scalar({JsonScalar::Kind::kNull, 0, {}}); }
  bool boolean(bool value) override {
    return scalar({JsonScalar::Kind::kBool, value ? 1u : 0u, {}});
  }
  bool number_integer(number_integer_t) override {
    return scalar({JsonScalar::Kind::kNegative, 0, {}});
  }
  bool number_unsigned(number_unsigned_t value) override {
    return scalar({JsonScalar::Kind::kUnsigned, value, {}});
  }
  bool number_float(number_float_t, const string_t&) override {
    return scalar({JsonScalar::Kind::kFraction, 0, {}});
  }
  bool string(string_t& value) override {
    return scalar({JsonScalar::Kind::kString, 0, std::move(value)});
  }
  bool binary(binary_t&) override { return visitor_.fail("binary values are not JSON"); }

  bool start_object(size_t) override { return open(false); }
  bool start_array(size_t) override { return open(true); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& value) override {
    std::unordered_set<std::string>& seen = keys_.back();
    path_.back() = value;
    if (seen.size() >= kMaxKeys)
      return visitor_.fail(fmt::format("an object has more than {} keys", kMaxKeys));
    if (!seen.insert(std::move(value)).second) return visitor_.duplicate_key(path_);
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return visitor_.fail(fmt::format("it is not valid JSON at byte {}", position));
  }

 private:
  bool scalar(JsonScalar value) { return visitor_.scalar(path_, std::move(value)); }

  bool open(bool array) {
    if (path_.size() >= max_depth_) {
      return visitor_.fail(
          fmt::format("objects or arrays are nested more than {} deep", max_depth_));
    }
    if (!visitor_.begin(path_, array)) return false;
    path_.emplace_back();
    keys_.emplace_back();
    return true;
  }

  bool close() {
    path_.pop_back();
    keys_.pop_back();
    return visitor_.end(path_);
  }

  size_t max_depth_;
  JsonVisitor& visitor_;
  JsonVisitor::Path path_;
  std::vector<std::unordered_set<std::string>> keys_;
};

}  // namespace

Status visit_json(std::string_view text, size_t max_depth, JsonVisitor& visitor) {
  // The parser takes a NUL for the end of the text and would ignore what follows.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return {Code::kCorrupt, fmt::format("it is not valid JSON at byte {}", nul)};
  }
  try {
    SaxBridge bridge(max_depth, visitor);
    if (nlohmann::json::sax_parse(text.begin(), text.end(), &bridge)) return {};
    return {Code::kCorrupt, visitor.why()};
  } catch (const std::exception& failure) {
    return {Code::kCorrupt, fmt::format("it cannot be read as JSON: {}", failure.what())};
  }
}

}  // namespace fathom
