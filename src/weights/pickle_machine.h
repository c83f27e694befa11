// The stack machine behind read_pickled_tensors: values, and the opcodes that a state dict needs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/dtype.h"
#include "core/status.h"
#include "weights/pickle.h"

namespace fathom {

// What the machine can hold. Values refer to each other by index, so cycles and shared parts are
// harmless.
struct PickleValue {
  enum class Kind : uint8_t {
    kNone,
    kBool,
    kInt,
    kFloat,
    kString,
    kTuple,
    kList,
    kDict,
    kStorage,
    kTensor,
    // Globals: names that stand for something, never code.
    kOrderedDict,
    kRebuildTensorV2,
    kRebuildTensorV3,
    kRebuildParameter,
    kStorageType,
    kDTypeObject
  };
  Kind kind = Kind::kNone;
  DType dtype = DType::kU8;     // kStorage, kStorageType, kDTypeObject
  int64_t number = 0;           // kBool, kInt; kStorage: elements; kTensor: index in tensors()
  std::string_view text;        // kString; kStorage: its key. Points into the pickle
  std::vector<uint32_t> items;  // kTuple, kList: elements; kDict: key, value, key, value, ...
};

const char* pickle_kind_name(PickleValue::Kind kind);  // "a string", "a tensor", ...

// Runs one pickle. The pickle's memory must outlive the machine. Used by one thread.
class PickleMachine {
 public:
  explicit PickleMachine(std::string_view pickle) : pickle_(pickle) {}

  // Runs up to STOP and returns the one value left. An error says what was refused and at which
  // byte.
  Result<uint32_t> run();

  const PickleValue& value(uint32_t index) const { return values_[index]; }
  const std::vector<PickledTensor>& tensors() const { return tensors_; }  // without names
  // The key of the dict entry that was being read when run() failed; empty if there was none.
  std::string_view current_key() const;

 private:
  using Kind = PickleValue::Kind;

  // Each runs `opcode` if it is one of its group.
  std::optional<Status> scalar_op(uint8_t opcode);
  std::optional<Status> container_op(uint8_t opcode);
  std::optional<Status> stack_op(uint8_t opcode);
  std::optional<Status> object_op(uint8_t opcode);
  Status step(uint8_t opcode);

  Result<uint64_t> read_number(size_t bytes);
  Result<std::string_view> read_bytes(uint64_t bytes);
  Result<std::string_view> read_line();

  Status push(PickleValue value);
  Status push_index(uint32_t index);
  Status push_int(size_t bytes, bool is_signed);
  Status push_long(size_t length_bytes);
  Status push_string(size_t length_bytes);
  Status push_tuple(size_t count);
  Status push_global(std::string_view module, std::string_view name);
  Result<uint32_t> pop();
  Result<std::vector<uint32_t>> pop_to_mark();
  Status extend(Kind kind, std::vector<uint32_t> items);
  Status store(uint64_t slot);
  Status load(uint64_t slot);

  Status read_global();
  Status read_stack_global();
  Status read_persistent_id();
  Status reduce();
  Status build();
  Status rebuild_tensor(const std::vector<uint32_t>& arguments, bool has_dtype);
  Status rebuild_parameter(const std::vector<uint32_t>& arguments);
  Result<std::vector<int64_t>> read_sizes(uint32_t index, const char* what) const;

  std::string_view pickle_;
  size_t position_ = 0;
  bool stopped_ = false;
  std::vector<PickleValue> values_;
  std::vector<uint32_t> stack_;
  std::vector<size_t> marks_;  // stack heights at MARK
  std::unordered_map<uint64_t, uint32_t> memo_;
  std::vector<PickledTensor> tensors_;
};

}  // namespace fathom
