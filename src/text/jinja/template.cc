// The boundary of the interpreter: JSON in, text or Status out, no exception beyond.
#include "text/jinja/template.h"

#include <new>

#include "text/jinja/interpreter.h"
#include "text/jinja/parser.h"
#include "text/jinja/unicode.h"

namespace fathom::jinja {

namespace {

constexpr size_t kMaxSource = size_t{1} << 20;  // bytes; released templates have at most 20,000
constexpr int kMaxInputDepth = 200;

using Json = nlohmann::ordered_json;

Value from_json(const Json& json, int depth) {
  if (depth > kMaxInputDepth) {
    throw Failure(FailureKind::kLimit, "the messages, tools or variables are nested too deeply");
  }
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value::boolean(json.get<bool>());
    case Json::value_t::number_integer:
      return Value::integer(json.get<int64_t>());
    case Json::value_t::number_unsigned:
      return Value::integer(static_cast<Int>(json.get<uint64_t>()));
    case Json::value_t::number_float:
      return Value::real(json.get<double>());
    case Json::value_t::string: {
      const auto& text = json.get_ref<const std::string&>();
      if (!valid_utf8(text)) {
        throw Failure(FailureKind::kValue, "a string of the input is not valid UTF-8");
      }
      return Value::string(text);
    }
    case Json::value_t::array: {
      auto list = std::make_shared<ListObject>();
      list->items.reserve(json.size());
      for (const Json& item : json) {
        list->items.push_back(from_json(item, depth + 1));
        list->depth = std::max(list->depth, 1 + list->items.back().depth());
      }
      return Value(Type::kList, std::move(list));
    }
    case Json::value_t::object: {
      auto dict = std::make_shared<DictObject>();
      for (const auto& [key, item] : json.items()) {
        if (!valid_utf8(key)) {
          throw Failure(FailureKind::kValue, "a key of the input is not valid UTF-8");
        }
        dict->set(Value::string(key), from_json(item, depth + 1));
      }
      return Value(Type::kDict, std::move(dict));
    }
    default:
      return Value::none();
  }
}

Status to_status(const Failure& failure) {
  const std::string place = failure.line > 0
                                ? "line " + std::to_string(failure.line) + " of the chat template: "
                                : "the chat template: ";
  const std::string what = failure.what();
  switch (failure.kind) {
    case FailureKind::kRaised:
      return Status(Code::kInvalidArgument, place + "the template refuses this input: " + what);
    case FailureKind::kUnsupported:
      return Status(Code::kUnsupported,
                    place + what + "; simplify the template or pass another one");
    case FailureKind::kLimit:
      return Status(Code::kOutOfMemory, place + what);
    default:
      return Status(Code::kInvalidArgument, place + failure_name(failure.kind) + ": " + what);
  }
}

template <typename T, typename Work>
Result<T> guarded(Work&& work) {
  try {
    return work();
  } catch (const Failure& failure) {
    return error(to_status(failure));
  } catch (const std::bad_alloc&) {
    return error(Code::kOutOfMemory, "the chat template: there is not enough memory for it");
  } catch (const std::exception& e) {
    return error(Code::kInternal, std::string("the chat template: ") + e.what());
  }
}

}  // namespace

Result<Template> Template::parse(std::string_view source) {
  if (source.size() > kMaxSource) {
    return error(Code::kInvalidArgument, "the chat template has " + std::to_string(source.size()) +
                                             " bytes; at most " + std::to_string(kMaxSource) +
                                             " are accepted");
  }
  if (!valid_utf8(source)) {
    return error(Code::kInvalidArgument, "the chat template is not valid UTF-8");
  }
  return guarded<Template>(
      [&] { return Template(std::shared_ptr<const Ast>(jinja::parse(source))); });
}

Result<std::string> Template::render(const nlohmann::ordered_json& variables, const Limits& limits,
                                     LocalTime now) const {
  if (!variables.is_object()) {
    return error(Code::kInvalidArgument, "the variables of a chat template must be a JSON object");
  }
  return guarded<std::string>([&] {
    const Value input = from_json(variables, 0);
    Runtime runtime(limits, now);
    Interpreter interpreter(runtime, input.dict());
    return interpreter.render(*ast_);
  });
}

}  // namespace fathom::jinja
