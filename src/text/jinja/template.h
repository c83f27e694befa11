// A chat template, parsed once and rendered many times.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/status.h"
#include "text/jinja/runtime.h"

namespace fathom::jinja {

struct Ast;

// Immutable after parse; render may be called from several threads.
class Template {
 public:
  // kInvalidArgument: a syntax error; kUnsupported: Jinja this interpreter does not have. Both
  // messages name the line and the construct.
  static Result<Template> parse(std::string_view source);

  // `variables`: a JSON object. An error names the line; kInvalidArgument where the template itself
  // raises or a Python error would occur, kUnsupported for missing features, kOutOfMemory when the
  // template exceeds a limit.
  Result<std::string> render(const nlohmann::ordered_json& variables,
                             const Limits& limits = Limits(),
                             LocalTime now = system_local_time) const;

 private:
  explicit Template(std::shared_ptr<const Ast> ast) : ast_(std::move(ast)) {}
  std::shared_ptr<const Ast> ast_;
};

}  // namespace fathom::jinja
