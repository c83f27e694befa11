// The edge of the C interface: buffers, statuses, structures with a size, and no exception past it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/status.h"
#include "fathom/fathom.h"

struct fathom_buffer {
  std::vector<char> bytes{'\0'};  // always ends with a zero byte
};

namespace fathom::capi {

void set_buffer(fathom_buffer* buffer, std::string_view bytes);  // NULL: nothing happens

// The status for C, its message in `error`.
fathom_status report(const Status& status, fathom_buffer* error);

// A refusal of the call itself: NULL handles, wrong sizes, unknown enumerators.
Status bad_call(std::string message);

// Runs the body of a call: Status() -> Status. Whatever it throws becomes a status.
template <typename Body>
fathom_status guarded(fathom_buffer* error, Body&& body) noexcept {
  try {
    try {
      return report(body(), error);
    } catch (const std::bad_alloc&) {
      return report(Status(Code::kOutOfMemory, "There is not enough memory for this call."), error);
    } catch (const std::exception& exception) {
      return report(Status(Code::kInternal, std::string("Unexpected: ") + exception.what() + "."),
                    error);
    }
  } catch (...) {
    return FATHOM_OUT_OF_MEMORY;  // not even the message fits
  }
}

// Runs a call without an error buffer (free, close) and keeps exceptions in.
template <typename Body>
void quietly(Body&& body) noexcept {
  try {
    body();
  } catch (...) {
  }
}

// Copies a caller's structure, whose first member is its size, into this library's version of it;
// members that the caller does not know are zero. `least` is the size of the first version.
template <typename T>
Status read_struct(const T* given, size_t least, const char* name, T* out) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (given == nullptr) return bad_call(std::string(name) + " is NULL.");
  if (given->size < least) {
    return bad_call(std::string(name) + ".size is " + std::to_string(given->size) +
                    "; set it to sizeof(" + name + "), which is at least " + std::to_string(least) +
                    ".");
  }
  std::memset(static_cast<void*>(out), 0, sizeof(T));
  std::memcpy(static_cast<void*>(out), given, std::min(given->size, sizeof(T)));
  return Status();
}

// Writes a filled structure into a caller's, as far as the caller knows it. The caller's size
// stays.
template <typename T>
Status write_struct(const T& filled, size_t least, const char* name, T* out) {
  T before;
  FATHOM_RETURN_IF_ERROR(read_struct(out, least, name, &before));
  const size_t offset = sizeof(out->size);
  std::memcpy(reinterpret_cast<char*>(out) + offset,
              reinterpret_cast<const char*>(&filled) + offset,
              std::min(before.size, sizeof(T)) - offset);
  return Status();
}

}  // namespace fathom::capi
