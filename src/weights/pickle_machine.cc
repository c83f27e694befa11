// The data opcodes of pickle protocols 2 to 5; every other opcode is refused.
#include "weights/pickle_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace fathom {
namespace {

// 20 values make a tensor, so this is room for 100,000 tensors and a bound of about 200 MB.
constexpr size_t kMaxValues = 2'000'000;
constexpr size_t kMaxStack = 1'000'000;
constexpr size_t kMaxLine = 256;  // of a module or global name

// Opcode numbers as Python's pickle.py names them.
enum Opcode : uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kNone = 'N',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kBinPersId = 'Q',
  kReduce = 'R',
  kBinUnicode = 'X',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyTuple = ')',
  kEmptyList = ']',
  kEmptyDict = '}',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95
};

// Names of opcodes that a hostile or foreign pickle may use, for the message.
const char* refused_opcode_name(uint8_t opcode) {
  switch (opcode) {
    case 'i':
      return "INST, which creates objects";
    case 'o':
      return "OBJ, which creates objects";
    case 0x81:
      return "NEWOBJ, which creates objects";
    case 0x92:
      return "NEWOBJ_EX, which creates objects";
    case 0x82:
    case 0x83:
    case 0x84:
      return "EXT, which names registered objects";
    case 'P':
      return "PERSID, a text reference";
    default:
      return "not used by torch for tensors";
  }
}

Status bad(std::string message) {
  return {Code::kCorrupt, std::move(message)};
}

}  // namespace

const char* pickle_kind_name(PickleValue::Kind kind) {
  switch (kind) {
    case PickleValue::Kind::kNone:
      return "None";
    case PickleValue::Kind::kBool:
      return "a boolean";
    case PickleValue::Kind::kInt:
      return "an integer";
    case PickleValue::Kind::kFloat:
      return "a number";
    case PickleValue::Kind::kString:
      return "a string";
    case PickleValue::Kind::kTuple:
      return "a tuple";
    case PickleValue::Kind::kList:
      return "a list";
    case PickleValue::Kind::kDict:
      return "a dict";
    case PickleValue::Kind::kStorage:
      return "a storage";
    case PickleValue::Kind::kTensor:
      return "a tensor";
    default:
      return "a global name";
  }
}

Result<uint32_t> PickleMachine::run() {
  while (!stopped_) {
    const size_t at = position_;
    if (at >= pickle_.size()) return error(Code::kCorrupt, "the pickle ends before its STOP");
    const auto opcode = static_cast<uint8_t>(pickle_[position_++]);
    if (at == 0 && opcode != kProto) {
      return error(Code::kUnsupported, "the pickle is not of protocol 2 to 5");
    }
    if (Status status = step(opcode); !status.ok()) {
      return error(status.code(), fmt::format("{} (byte {} of the pickle)", status.message(), at));
    }
  }
  if (position_ != pickle_.size()) {
    return error(Code::kCorrupt,
                 fmt::format("{} bytes follow the end of the pickle", pickle_.size() - position_));
  }
  if (stack_.size() != 1 || !marks_.empty()) {
    return error(Code::kCorrupt,
                 fmt::format("the pickle leaves {} values instead of one", stack_.size()));
  }
  return stack_.front();
}

std::string_view PickleMachine::current_key() const {
  // The stack of a state dict in progress is: dict, mark, key, value, key, value, ..., then
  // whatever the current value needs. Its keys are the even places before the next mark.
  size_t begin = 0;
  while (begin < stack_.size() && values_[stack_[begin]].kind != Kind::kDict) ++begin;
  ++begin;
  size_t end = stack_.size();
  for (const size_t mark : marks_) {
    if (mark > begin) end = std::min(end, mark);
  }
  std::string_view key;
  for (size_t i = begin; i < end; i += 2) {
    const PickleValue& candidate = values_[stack_[i]];
    if (candidate.kind == Kind::kString) key = candidate.text;
  }
  return key;
}

Status PickleMachine::step(uint8_t opcode) {
  if (auto done = scalar_op(opcode)) return *std::move(done);
  if (auto done = container_op(opcode)) return *std::move(done);
  if (auto done = stack_op(opcode)) return *std::move(done);
  if (auto done = object_op(opcode)) return *std::move(done);
  return {Code::kUnsupported,
          fmt::format("the pickle uses opcode 0x{:02x}, {}", opcode, refused_opcode_name(opcode))};
}

std::optional<Status> PickleMachine::scalar_op(uint8_t opcode) {
  switch (opcode) {
    case kNone:
      return push({Kind::kNone});
    case kNewTrue:
      return push({Kind::kBool, DType::kU8, 1});
    case kNewFalse:
      return push({Kind::kBool, DType::kU8, 0});
    case kBinInt:
      return push_int(4, true);
    case kBinInt1:
      return push_int(1, false);
    case kBinInt2:
      return push_int(2, false);
    case kLong1:
      return push_long(1);
    case kLong4:
      return push_long(4);
    case kShortBinUnicode:
      return push_string(1);
    case kBinUnicode:
      return push_string(4);
    case kBinUnicode8:
      return push_string(8);
    case kBinFloat: {
      const auto bits = read_bytes(8);  // no tensor depends on its value
      return bits ? push({Kind::kFloat}) : bits.error();
    }
    default:
      return std::nullopt;
  }
}

std::optional<Status> PickleMachine::container_op(uint8_t opcode) {
  switch (opcode) {
    case kEmptyTuple:
      return push({Kind::kTuple});
    case kEmptyList:
      return push({Kind::kList});
    case kEmptyDict:
      return push({Kind::kDict});
    case kTuple1:
      return push_tuple(1);
    case kTuple2:
      return push_tuple(2);
    case kTuple3:
      return push_tuple(3);
    case kTuple: {
      auto items = pop_to_mark();
      if (!items) return items.error();
      return push({Kind::kTuple, DType::kU8, 0, {}, *std::move(items)});
    }
    case kAppend:
    case kSetItem: {
      std::vector<uint32_t> items(opcode == kAppend ? 1 : 2);
      for (size_t i = items.size(); i-- > 0;) {
        const auto item = pop();
        if (!item) return item.error();
        items[i] = *item;
      }
      return extend(opcode == kAppend ? Kind::kList : Kind::kDict, std::move(items));
    }
    case kAppends:
    case kSetItems: {
      auto items = pop_to_mark();
      if (!items) return items.error();
      return extend(opcode == kAppends ? Kind::kList : Kind::kDict, *std::move(items));
    }
    default:
      return std::nullopt;
  }
}

std::optional<Status> PickleMachine::stack_op(uint8_t opcode) {
  const auto with_number = [&](size_t bytes, auto action) -> Status {
    const auto number = read_number(bytes);
    return number ? action(*number) : number.error();
  };
  const auto store_at = [&](uint64_t slot) { return store(slot); };
  const auto load_from = [&](uint64_t slot) { return load(slot); };
  switch (opcode) {
    case kMark:
      if (marks_.size() >= kMaxStack) return bad("the pickle nests too deep");
      marks_.push_back(stack_.size());
      return Status();
    case kPop: {
      const auto popped = pop();
      return popped ? Status() : popped.error();
    }
    case kPopMark: {
      const auto popped = pop_to_mark();
      return popped ? Status() : popped.error();
    }
    case kBinPut:
      return with_number(1, store_at);
    case kLongBinPut:
      return with_number(4, store_at);
    case kMemoize:
      return store(memo_.size());
    case kBinGet:
      return with_number(1, load_from);
    case kLongBinGet:
      return with_number(4, load_from);
    case kStop:
      stopped_ = true;
      return Status();
    case kFrame:  // frames only help readers that buffer
      return with_number(8, [&](uint64_t length) {
        return length <= pickle_.size() - position_
                   ? Status()
                   : bad("a frame runs past the end of the pickle");
      });
    case kProto:
      return with_number(1, [&](uint64_t protocol) {
        return protocol >= 2 && protocol <= 5
                   ? Status()
                   : Status(Code::kUnsupported,
                            fmt::format("pickle protocol {} is not supported", protocol));
      });
    default:
      return std::nullopt;
  }
}

std::optional<Status> PickleMachine::object_op(uint8_t opcode) {
  switch (opcode) {
    case kGlobal:
      return read_global();
    case kStackGlobal:
      return read_stack_global();
    case kBinPersId:
      return read_persistent_id();
    case kReduce:
      return reduce();
    case kBuild:
      return build();
    default:
      return std::nullopt;
  }
}

Result<std::string_view> PickleMachine::read_bytes(uint64_t bytes) {
  const uint64_t left = pickle_.size() - position_;
  if (bytes > left) {
    return error(Code::kCorrupt,
                 fmt::format("the pickle asks for {} bytes where {} are left", bytes, left));
  }
  const std::string_view taken = pickle_.substr(position_, bytes);
  position_ += bytes;
  return taken;
}

Result<uint64_t> PickleMachine::read_number(size_t bytes) {
  FATHOM_ASSIGN(const std::string_view raw, read_bytes(bytes));
  uint64_t number = 0;
  for (size_t i = bytes; i-- > 0;) number = number << 8 | static_cast<uint8_t>(raw[i]);
  return number;
}

Result<std::string_view> PickleMachine::read_line() {
  const std::string_view rest = pickle_.substr(position_, kMaxLine + 1);
  const size_t length = rest.find('\n');
  if (length == std::string_view::npos)
    return error(Code::kCorrupt, "a global's name does not end");
  position_ += length + 1;
  return rest.substr(0, length);
}

Status PickleMachine::push(PickleValue value) {
  if (values_.size() >= kMaxValues)
    return bad(fmt::format("the pickle has more than {} values", kMaxValues));
  values_.push_back(std::move(value));
  return push_index(static_cast<uint32_t>(values_.size() - 1));
}

Status PickleMachine::push_index(uint32_t index) {
  if (stack_.size() >= kMaxStack)
    return bad(fmt::format("the pickle's stack exceeds {} values", kMaxStack));
  stack_.push_back(index);
  return {};
}

Status PickleMachine::push_int(size_t bytes, bool is_signed) {
  FATHOM_ASSIGN_OR_STATUS(const uint64_t raw, read_number(bytes));
  const int64_t number = is_signed ? static_cast<int32_t>(raw) : static_cast<int64_t>(raw);
  return push({Kind::kInt, DType::kU8, number});
}

Status PickleMachine::push_long(size_t length_bytes) {
  FATHOM_ASSIGN_OR_STATUS(const uint64_t length, read_number(length_bytes));
  if (length > 8) return bad(fmt::format("the pickle has an integer of {} bytes", length));
  FATHOM_ASSIGN_OR_STATUS(uint64_t raw, read_number(length));
  const bool negative = length > 0 && (raw >> (8 * length - 1) & 1) != 0;
  if (negative && length < 8) raw |= ~uint64_t{0} << (8 * length);
  return push({Kind::kInt, DType::kU8, static_cast<int64_t>(raw)});
}

Status PickleMachine::push_string(size_t length_bytes) {
  FATHOM_ASSIGN_OR_STATUS(const uint64_t length, read_number(length_bytes));
  FATHOM_ASSIGN_OR_STATUS(const std::string_view text, read_bytes(length));
  return push({Kind::kString, DType::kU8, 0, text});
}

Status PickleMachine::push_tuple(size_t count) {
  std::vector<uint32_t> items(count);
  for (size_t i = count; i-- > 0;) {
    FATHOM_ASSIGN_OR_STATUS(items[i], pop());
  }
  return push({Kind::kTuple, DType::kU8, 0, {}, std::move(items)});
}

Result<uint32_t> PickleMachine::pop() {
  const size_t floor = marks_.empty() ? 0 : marks_.back();
  if (stack_.size() <= floor)
    return error(Code::kCorrupt, "the pickle takes a value that is not there");
  const uint32_t index = stack_.back();
  stack_.pop_back();
  return index;
}

Result<std::vector<uint32_t>> PickleMachine::pop_to_mark() {
  if (marks_.empty())
    return error(Code::kCorrupt, "the pickle goes back to a mark that is not there");
  const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  std::vector<uint32_t> items(first, stack_.end());
  stack_.erase(first, stack_.end());
  marks_.pop_back();
  return items;
}

Status PickleMachine::extend(Kind kind, std::vector<uint32_t> items) {
  if (stack_.empty() || values_[stack_.back()].kind != kind) {
    return bad(
        fmt::format("the pickle adds items to something that is not {}", pickle_kind_name(kind)));
  }
  if (kind == Kind::kDict && items.size() % 2 != 0)
    return bad("the pickle adds a key without a value");
  std::vector<uint32_t>& all = values_[stack_.back()].items;
  all.insert(all.end(), items.begin(), items.end());
  return {};
}

Status PickleMachine::store(uint64_t slot) {
  const size_t floor = marks_.empty() ? 0 : marks_.back();
  if (stack_.size() <= floor) return bad("the pickle remembers a value that is not there");
  if (memo_.size() >= kMaxValues)
    return bad(fmt::format("the pickle remembers more than {} values", kMaxValues));
  memo_[slot] = stack_.back();
  return {};
}

Status PickleMachine::load(uint64_t slot) {
  const auto found = memo_.find(slot);
  if (found == memo_.end())
    return bad(fmt::format("the pickle recalls value {}, which it never stored", slot));
  return push_index(found->second);
}

}  // namespace fathom
