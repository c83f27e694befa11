// Statuses, buffers and versions of the C interface.
#include "capi/boundary.h"

#include <utility>

namespace fathom::capi {

void set_buffer(fathom_buffer* buffer, std::string_view bytes) {
  if (buffer == nullptr) return;
  buffer->bytes.reserve(bytes.size() + 1);
  buffer->bytes.assign(bytes.begin(), bytes.end());
  buffer->bytes.push_back('\0');
}

fathom_status report(const Status& status, fathom_buffer* error) {
  set_buffer(error, status.message());
  return static_cast<fathom_status>(status.code());
}

Status bad_call(std::string message) {
  return Status(Code::kInvalidArgument, std::move(message));
}

static_assert(FATHOM_OK == static_cast<int>(Code::kOk));
static_assert(FATHOM_INVALID_ARGUMENT == static_cast<int>(Code::kInvalidArgument));
static_assert(FATHOM_NOT_FOUND == static_cast<int>(Code::kNotFound));
static_assert(FATHOM_UNSUPPORTED == static_cast<int>(Code::kUnsupported));
static_assert(FATHOM_CORRUPT == static_cast<int>(Code::kCorrupt));
static_assert(FATHOM_OUT_OF_MEMORY == static_cast<int>(Code::kOutOfMemory));
static_assert(FATHOM_UNAVAILABLE == static_cast<int>(Code::kUnavailable));
static_assert(FATHOM_CANCELLED == static_cast<int>(Code::kCancelled));
static_assert(FATHOM_INTERNAL == static_cast<int>(Code::kInternal));
static_assert(FATHOM_TIMEOUT == static_cast<int>(Code::kTimeout));

}  // namespace fathom::capi

extern "C" {

const char* fathom_status_name(int32_t status) {
  if (status < FATHOM_OK || status > FATHOM_TIMEOUT) return "unknown";
  return fathom::code_name(static_cast<fathom::Code>(status));
}

const char* fathom_version(void) {
  return FATHOM_VERSION;
}
int32_t fathom_abi_version(void) {
  return FATHOM_ABI_VERSION;
}

fathom_buffer* fathom_buffer_new(void) {
  try {
    return new fathom_buffer;
  } catch (...) {
    return nullptr;
  }
}
void fathom_buffer_free(fathom_buffer* buffer) {
  delete buffer;
}
const char* fathom_buffer_data(const fathom_buffer* buffer) {
  return buffer == nullptr ? "" : buffer->bytes.data();
}
size_t fathom_buffer_size(const fathom_buffer* buffer) {
  return buffer == nullptr ? 0 : buffer->bytes.size() - 1;
}

}  // extern "C"
