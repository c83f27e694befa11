// What torch's pickles may name, and how tensors are put together from it.
#include "weights/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <unordered_set>
#include <utility>

#include "weights/pickle_machine.h"
#include "weights/shard.h"

namespace fathom {
namespace {

using Kind = PickleValue::Kind;

// Every global that exists. Storages and dtypes carry their element type.
struct KnownGlobal {
  std::string_view module;
  std::string_view name;
  Kind kind;
  DType dtype = DType::kU8;
};
constexpr std::array kGlobals = std::to_array<KnownGlobal>({
    {"collections", "OrderedDict", Kind::kOrderedDict},
    {"torch._utils", "_rebuild_tensor_v2", Kind::kRebuildTensorV2},
    {"torch._utils", "_rebuild_tensor_v3", Kind::kRebuildTensorV3},
    {"torch._utils", "_rebuild_parameter", Kind::kRebuildParameter},
    {"torch", "DoubleStorage", Kind::kStorageType, DType::kF64},
    {"torch", "FloatStorage", Kind::kStorageType, DType::kF32},
    {"torch", "HalfStorage", Kind::kStorageType, DType::kF16},
    {"torch", "BFloat16Storage", Kind::kStorageType, DType::kBF16},
    {"torch", "LongStorage", Kind::kStorageType, DType::kI64},
    {"torch", "IntStorage", Kind::kStorageType, DType::kI32},
    {"torch", "ShortStorage", Kind::kStorageType, DType::kI16},
    {"torch", "CharStorage", Kind::kStorageType, DType::kI8},
    {"torch", "ByteStorage", Kind::kStorageType, DType::kU8},
    {"torch", "BoolStorage", Kind::kStorageType, DType::kBool},
    {"torch", "UntypedStorage", Kind::kStorageType, DType::kU8},
    {"torch.storage", "UntypedStorage", Kind::kStorageType, DType::kU8},
    {"torch", "float64", Kind::kDTypeObject, DType::kF64},
    {"torch", "float32", Kind::kDTypeObject, DType::kF32},
    {"torch", "float16", Kind::kDTypeObject, DType::kF16},
    {"torch", "bfloat16", Kind::kDTypeObject, DType::kBF16},
    {"torch", "float8_e4m3fn", Kind::kDTypeObject, DType::kF8E4M3},
    {"torch", "float8_e5m2", Kind::kDTypeObject, DType::kF8E5M2},
    {"torch", "float8_e8m0fnu", Kind::kDTypeObject, DType::kF8E8M0},
    {"torch", "int64", Kind::kDTypeObject, DType::kI64},
    {"torch", "int32", Kind::kDTypeObject, DType::kI32},
    {"torch", "int16", Kind::kDTypeObject, DType::kI16},
    {"torch", "int8", Kind::kDTypeObject, DType::kI8},
    {"torch", "uint8", Kind::kDTypeObject, DType::kU8},
    {"torch", "bool", Kind::kDTypeObject, DType::kBool},
});

Status bad(std::string message) {
  return {Code::kCorrupt, std::move(message)};
}

}  // namespace

Status PickleMachine::push_global(std::string_view module, std::string_view name) {
  const auto* known = std::find_if(
      kGlobals.begin(), kGlobals.end(),
      [&](const KnownGlobal& global) { return global.module == module && global.name == name; });
  if (known == kGlobals.end()) {
    return {Code::kUnsupported,
            fmt::format("the pickle wants {}.{}, which no plain tensor needs; nothing was executed",
                        module, name)};
  }
  return push({known->kind, known->dtype});
}

Status PickleMachine::read_global() {
  FATHOM_ASSIGN_OR_STATUS(const std::string_view module, read_line());
  FATHOM_ASSIGN_OR_STATUS(const std::string_view name, read_line());
  return push_global(module, name);
}

Status PickleMachine::read_stack_global() {
  FATHOM_ASSIGN_OR_STATUS(const uint32_t name, pop());
  FATHOM_ASSIGN_OR_STATUS(const uint32_t module, pop());
  if (values_[name].kind != Kind::kString || values_[module].kind != Kind::kString) {
    return bad("the pickle names a global by something that is not a string");
  }
  return push_global(values_[module].text, values_[name].text);
}

// ("storage", storage type, key, device, elements)
Status PickleMachine::read_persistent_id() {
  FATHOM_ASSIGN_OR_STATUS(const uint32_t index, pop());
  const std::vector<uint32_t>& items = values_[index].items;
  if (values_[index].kind != Kind::kTuple || items.size() != 5) {
    return bad("the pickle refers to outside data by something that is not a storage tuple of 5");
  }
  const PickleValue& tag = values_[items[0]];
  const PickleValue& type = values_[items[1]];
  const PickleValue& key = values_[items[2]];
  const PickleValue& device = values_[items[3]];
  const PickleValue& elements = values_[items[4]];
  if (tag.kind != Kind::kString || tag.text != "storage" || type.kind != Kind::kStorageType ||
      key.kind != Kind::kString || device.kind != Kind::kString || elements.kind != Kind::kInt) {
    return bad("the pickle has a malformed reference to a storage");
  }
  if (elements.number < 0) return bad(fmt::format("a storage has {} elements", elements.number));
  return push({Kind::kStorage, type.dtype, elements.number, key.text});
}

Status PickleMachine::reduce() {
  FATHOM_ASSIGN_OR_STATUS(const uint32_t arguments, pop());
  FATHOM_ASSIGN_OR_STATUS(const uint32_t function, pop());
  if (values_[arguments].kind != Kind::kTuple)
    return bad("the pickle calls something without a tuple of arguments");
  // A copy: building the result may move the values.
  const std::vector<uint32_t> items = values_[arguments].items;
  switch (values_[function].kind) {
    case Kind::kOrderedDict:
      if (!items.empty()) return bad("the pickle makes an OrderedDict with arguments");
      return push({Kind::kDict});
    case Kind::kRebuildTensorV2:
      return rebuild_tensor(items, false);
    case Kind::kRebuildTensorV3:
      return rebuild_tensor(items, true);
    case Kind::kRebuildParameter:
      return rebuild_parameter(items);
    default:
      return bad(fmt::format("the pickle calls {}, which is not a function",
                             pickle_kind_name(values_[function].kind)));
  }
}

// Attributes of a state dict (`_metadata`, module versions) say nothing about tensors.
Status PickleMachine::build() {
  FATHOM_ASSIGN_OR_STATUS(const uint32_t state, pop());
  FATHOM_ASSIGN_OR_STATUS(const uint32_t target, pop());
  if (values_[target].kind != Kind::kDict) {
    return bad(
        fmt::format("the pickle sets attributes of {}", pickle_kind_name(values_[target].kind)));
  }
  if (values_[state].kind != Kind::kDict) {
    return bad(
        fmt::format("the pickle sets attributes from {}", pickle_kind_name(values_[state].kind)));
  }
  return push_index(target);
}

Result<std::vector<int64_t>> PickleMachine::read_sizes(uint32_t index, const char* what) const {
  const PickleValue& tuple = values_[index];
  if (tuple.kind != Kind::kTuple || tuple.items.size() > kMaxRank) {
    return error(Code::kCorrupt, fmt::format("a tensor's {} is not a tuple of at most {} integers",
                                             what, kMaxRank));
  }
  std::vector<int64_t> sizes;
  for (const uint32_t item : tuple.items) {
    if (values_[item].kind != Kind::kInt || values_[item].number < 0) {
      return error(Code::kCorrupt,
                   fmt::format("a tensor's {} has an entry that is not a whole number", what));
    }
    sizes.push_back(values_[item].number);
  }
  return sizes;
}

// v2: (storage, offset, size, stride, requires_grad, hooks[, metadata])
// v3: (storage, offset, size, stride, requires_grad, hooks, dtype[, metadata])
Status PickleMachine::rebuild_tensor(const std::vector<uint32_t>& arguments, bool has_dtype) {
  const size_t required = has_dtype ? 7 : 6;
  if (arguments.size() != required && arguments.size() != required + 1) {
    return bad(fmt::format("a tensor is made from {} arguments", arguments.size()));
  }
  const PickleValue& storage = values_[arguments[0]];
  const PickleValue& offset = values_[arguments[1]];
  if (storage.kind != Kind::kStorage)
    return bad("a tensor is made from something that is not a storage");
  if (offset.kind != Kind::kInt || offset.number < 0)
    return bad("a tensor's offset is not a whole number");
  PickledTensor tensor;
  tensor.storage_key = std::string(storage.text);
  tensor.storage_dtype = storage.dtype;
  tensor.storage_elements = storage.number;
  tensor.storage_offset = offset.number;
  tensor.dtype = storage.dtype;
  if (has_dtype) {
    if (values_[arguments[6]].kind != Kind::kDTypeObject)
      return bad("a tensor's dtype is not a dtype");
    tensor.dtype = values_[arguments[6]].dtype;
  }
  FATHOM_ASSIGN_OR_STATUS(tensor.shape, read_sizes(arguments[2], "shape"));
  FATHOM_ASSIGN_OR_STATUS(tensor.stride, read_sizes(arguments[3], "stride"));
  if (tensor.shape.size() != tensor.stride.size())
    return bad("a tensor's shape and stride differ in length");
  if (arguments.size() > required) {
    // Flags such as "negate" or "conjugate", which would change what the bytes mean.
    const PickleValue& metadata = values_[arguments.back()];
    if (metadata.kind != Kind::kNone && !(metadata.kind == Kind::kDict && metadata.items.empty())) {
      return bad("a tensor has extra metadata; save plain tensors");
    }
  }
  if (tensors_.size() >= kMaxPickledTensors) {
    return bad(fmt::format("the pickle has more than {} tensors", kMaxPickledTensors));
  }
  tensors_.push_back(std::move(tensor));
  return push({Kind::kTensor, DType::kU8, static_cast<int64_t>(tensors_.size() - 1)});
}

// (tensor, requires_grad, hooks)
Status PickleMachine::rebuild_parameter(const std::vector<uint32_t>& arguments) {
  if (arguments.size() != 3 || values_[arguments[0]].kind != Kind::kTensor) {
    return bad("a parameter is made from something that is not a tensor");
  }
  return push_index(arguments[0]);
}

std::vector<PickledTensor> read_pickled_tensors(std::string_view pickle, const std::string& file,
                                                OffenderReport& report) {
  std::vector<PickledTensor> tensors;
  if (pickle.size() > kMaxPickleBytes) {
    report.add({"oversized pickle", "", fmt::format("at most {} bytes", kMaxPickleBytes),
                fmt::format("{} bytes", pickle.size()), file});
    return tensors;
  }
  PickleMachine machine(pickle);
  const Result<uint32_t> root = machine.run();
  if (!root) {
    const std::string key(machine.current_key());
    report.add({key.empty() ? "refused pickle" : "refused pickle at tensor", key, "",
                root.error().message(), file});
    return tensors;
  }
  const PickleValue& dict = machine.value(*root);
  if (dict.kind != Kind::kDict) {
    report.add({"not a state dict", "", "a dict of tensors", pickle_kind_name(dict.kind), file});
    return tensors;
  }
  std::unordered_set<std::string_view> names;
  for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const PickleValue& key = machine.value(dict.items[i]);
    const PickleValue& value = machine.value(dict.items[i + 1]);
    if (key.kind != Kind::kString) {
      report.add({"entry without a name", "", "a string as key", pickle_kind_name(key.kind), file});
    } else if (value.kind != Kind::kTensor) {
      report.add({"entry that is not a tensor", std::string(key.text),
                  value.kind == Kind::kDict ? "a tensor; save that dict itself with torch.save"
                                            : "a tensor",
                  pickle_kind_name(value.kind), file});
    } else if (!names.insert(key.text).second) {
      report.add(
          {"duplicate tensor", std::string(key.text), "one entry in the state dict", "two", file});
    } else if (tensors.size() == kMaxPickledTensors) {
      report.add({"too many tensors", "", fmt::format("at most {}", kMaxPickledTensors), "", file});
      break;
    } else {
      tensors.push_back(machine.tensors()[static_cast<size_t>(value.number)]);
      tensors.back().name = std::string(key.text);
    }
  }
  return tensors;
}

}  // namespace fathom
