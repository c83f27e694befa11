// The one exception of the template interpreter; it never leaves src/text/jinja.
#pragma once

#include <stdexcept>
#include <string>

namespace fathom::jinja {

// Python's exception classes as far as they matter here, and two of our own at the end.
enum class FailureKind {
  kSyntax,     // jinja2.TemplateSyntaxError and TemplateAssertionError
  kRuntime,    // jinja2.TemplateRuntimeError
  kUndefined,  // jinja2.UndefinedError
  kSecurity,   // jinja2.SecurityError
  kRaised,     // the template called raise_exception
  kType,
  kValue,
  kKey,
  kIndex,
  kAttribute,
  kOverflow,
  kZeroDivision,
  kUnsupported,  // Jinja has it, this interpreter does not
  kLimit,        // the template wants more time, memory or depth than it may have
};

const char* failure_name(FailureKind kind);  // "TypeError", ...

class Failure : public std::runtime_error {
 public:
  Failure(FailureKind kind, const std::string& message, int line = 0)
      : std::runtime_error(message), kind(kind), line(line) {}

  FailureKind kind;
  int line;  // 1-based line of the template; 0: not known yet
};

}  // namespace fathom::jinja
