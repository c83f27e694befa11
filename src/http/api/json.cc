// Bodies in, bodies out.
#include "http/api/json.h"

#include <fmt/format.h>

#include "core/json_shape.h"

namespace fathom::api {

namespace {

// The library's message without its "[json.exception.parse_error.101] parse error at ...: " head.
std::string plain_reason(std::string what) {
  const size_t colon = what.find("column ");
  const size_t begin = colon == std::string::npos ? std::string::npos : what.find(": ", colon);
  if (begin != std::string::npos) return what.substr(begin + 2);
  const size_t bracket = what.find("] ");
  return bracket == std::string::npos ? what : what.substr(bracket + 2);
}

}  // namespace

Result<Json> parse_json(std::string_view text) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return error(Code::kInvalidArgument, "The body is empty; send a JSON object.");
  }
  FATHOM_TRY(check_json_shape(text));
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& e) {
    return error(Code::kInvalidArgument, fmt::format("The body is not JSON: at byte {}: {}.",
                                                     e.byte, plain_reason(e.what())));
  } catch (const Json::exception& e) {
    return error(Code::kInvalidArgument,
                 fmt::format("The body is not JSON: {}.", plain_reason(e.what())));
  }
}

std::string dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

const char* type_in_words(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "an array";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return "a boolean";
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return "an integer";
    case Json::value_t::number_float:
      return "a fraction";
    default:
      return "something else";
  }
}

}  // namespace fathom::api
