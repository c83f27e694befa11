// Status and Result: how every folder reports failure. Exceptions never cross a folder.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace fathom {

enum class Code {
  kOk = 0,
  kInvalidArgument,  // the caller gave something wrong; the message says what and what to do
  kNotFound,         // a file, model or id does not exist
  kUnsupported,      // understood, but this build does not do it
  kCorrupt,          // a file is damaged or hostile
  kOutOfMemory,      // refused because memory would not suffice; the message has the numbers
  kUnavailable,      // try again later (queue full, draining)
  kCancelled,
  kInternal,  // a defect of fathom itself
  kTimeout,   // a request's time was over
};

// Outcome of an operation. `message` is a complete sentence for the user; empty iff ok.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  // The same failure with "context: " in front of its message.
  Status with_context(const std::string& context) const {
    return ok() ? *this : Status(code_, context + ": " + message_);
  }

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

// A value or the Status that explains why there is none.
template <typename T>
using Result = tl::expected<T, Status>;

inline tl::unexpected<Status> error(Code code, std::string message) {
  return tl::unexpected<Status>(Status(code, std::move(message)));
}
inline tl::unexpected<Status> error(Status status) {
  return tl::unexpected<Status>(std::move(status));
}

const char* code_name(Code code);  // "invalid_argument", ...

}  // namespace fathom

#define FATHOM_CONCAT_INNER(a, b) a##b
#define FATHOM_CONCAT(a, b) FATHOM_CONCAT_INNER(a, b)

// Returns from a function of type Status if `expr` failed.
#define FATHOM_RETURN_IF_ERROR(expr)                                      \
  do {                                                                    \
    if (::fathom::Status status_ = (expr); !status_.ok()) return status_; \
  } while (false)

// Returns from a function of type Result<T> if the Status `expr` failed.
#define FATHOM_TRY(expr)                                             \
  do {                                                               \
    if (::fathom::Status status_ = (expr); !status_.ok())            \
      return ::tl::unexpected<::fathom::Status>(std::move(status_)); \
  } while (false)

// Declares `lhs` from a Result<T>, or returns its error from a function of type Result<U>.
#define FATHOM_ASSIGN(lhs, expr) FATHOM_ASSIGN_IMPL(FATHOM_CONCAT(result_, __LINE__), lhs, expr)
#define FATHOM_ASSIGN_IMPL(tmp, lhs, expr)                                     \
  auto tmp = (expr);                                                           \
  if (!tmp) return ::tl::unexpected<::fathom::Status>(std::move(tmp).error()); \
  lhs = std::move(*tmp)

// The same in a function of type Status.
#define FATHOM_ASSIGN_OR_STATUS(lhs, expr) \
  FATHOM_ASSIGN_OR_STATUS_IMPL(FATHOM_CONCAT(result_, __LINE__), lhs, expr)
#define FATHOM_ASSIGN_OR_STATUS_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                                 \
  if (!tmp) return std::move(tmp).error();           \
  lhs = std::move(*tmp)
