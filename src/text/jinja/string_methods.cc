// Methods of str: searching, splitting, stripping, joining.
#include <algorithm>
#include <iterator>

#include "text/jinja/arguments.h"
#include "text/jinja/attributes.h"
#include "text/jinja/iteration.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/jinja/string_methods.h"
#include "text/jinja/unicode.h"

namespace fathom::jinja {

std::string_view string_argument(Runtime& runtime, const Value& value, std::string_view function) {
  runtime.require_defined(value);
  if (!value.is_string()) {
    runtime.type_error(std::string(function) + "() argument must be str, not " + type_name(value));
  }
  return value.text();
}

namespace {

Value piece(Runtime& runtime, const Value& self, std::string_view text) {
  runtime.reserve(text.size());
  return runtime.string(std::string(text), self.markup());
}

Value strip(Runtime& runtime, const Value& self, const Args& args, bool left, bool right) {
  const Bound bound = bind_positional(runtime, "strip", args, 0, 1);
  std::u32string chars;
  const bool given = !bound[0].missing() && !bound[0].is_none();
  if (given) chars = decode(string_argument(runtime, bound[0], "strip"));
  runtime.work(self.text().size() * (1 + chars.size() / 8));
  const StripRange range = strip_range(self.text(), given ? &chars : nullptr, left, right);
  return piece(runtime, self, self.text().substr(range.begin, range.end - range.begin));
}

Value method_strip(Runtime& runtime, const Value& self, const Args& args) {
  return strip(runtime, self, args, true, true);
}
Value method_lstrip(Runtime& runtime, const Value& self, const Args& args) {
  return strip(runtime, self, args, true, false);
}
Value method_rstrip(Runtime& runtime, const Value& self, const Args& args) {
  return strip(runtime, self, args, false, true);
}

using Pieces = std::vector<std::string_view>;

size_t first_word(std::string_view text) {  // its end; text starts with it
  size_t end = 0;
  while (end < text.size()) {
    size_t next = end;
    if (is_space(next_character(text, next))) break;
    end = next;
  }
  return end;
}

size_t last_word(std::string_view text) {  // its begin; text ends with it
  size_t begin = text.size();
  while (begin > 0) {
    size_t start = begin - 1;
    while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
    size_t next = start;
    if (is_space(next_character(text, next))) break;
    begin = start;
  }
  return begin;
}

// Splits on white space; at most `limit` splits (negative: no limit).
Pieces split_space(std::string_view text, int64_t limit, bool from_right) {
  Pieces pieces;
  for (;; --limit) {
    const StripRange range = strip_range(text, nullptr, !from_right, from_right);
    text = text.substr(range.begin, range.end - range.begin);
    if (text.empty()) return pieces;
    if (limit == 0) {
      pieces.push_back(text);
      return pieces;
    }
    if (from_right) {
      const size_t cut = last_word(text);
      pieces.push_back(text.substr(cut));
      text = text.substr(0, cut);
    } else {
      const size_t cut = first_word(text);
      pieces.push_back(text.substr(0, cut));
      text = text.substr(cut);
    }
  }
}

Pieces split_separator(std::string_view text, std::string_view separator, int64_t limit,
                       bool from_right) {
  Pieces pieces;
  while (limit != 0) {
    const size_t at = from_right ? text.rfind(separator) : text.find(separator);
    if (at == std::string_view::npos) break;
    if (from_right) {
      pieces.push_back(text.substr(at + separator.size()));
      text = text.substr(0, at);
    } else {
      pieces.push_back(text.substr(0, at));
      text = text.substr(at + separator.size());
    }
    --limit;
  }
  pieces.push_back(text);
  return pieces;
}

Value split(Runtime& runtime, const Value& self, const Args& args, bool from_right) {
  const Bound bound = bind(runtime, "split", args, {"sep", "maxsplit"}, 0);
  const int64_t limit = bound[1].missing() ? -1 : index_argument(runtime, bound[1]);
  runtime.work(self.text().size() * 4);
  runtime.reserve(self.text().size() * sizeof(std::string_view));
  Pieces pieces;
  if (bound[0].missing() || bound[0].is_none()) {
    pieces = split_space(self.text(), limit, from_right);
  } else {
    const std::string_view separator = string_argument(runtime, bound[0], "split");
    if (separator.empty()) runtime.fail(FailureKind::kValue, "empty separator");
    pieces = split_separator(self.text(), separator, limit, from_right);
  }
  if (from_right) std::reverse(pieces.begin(), pieces.end());
  std::vector<Value> items;
  for (std::string_view text : pieces) runtime.push(items, piece(runtime, self, text));
  return runtime.list(std::move(items));
}

Value method_split(Runtime& runtime, const Value& self, const Args& args) {
  return split(runtime, self, args, false);
}
Value method_rsplit(Runtime& runtime, const Value& self, const Args& args) {
  return split(runtime, self, args, true);
}

Value method_splitlines(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound = bind(runtime, "splitlines", args, {"keepends"}, 0);
  std::vector<Value> items;
  for (std::string_view line : split_lines(self.text(), truthy(bound[0]))) {
    runtime.push(items, piece(runtime, self, line));
  }
  return runtime.list(std::move(items));
}

Value partition(Runtime& runtime, const Value& self, const Args& args, bool from_right) {
  const Bound bound = bind_positional(runtime, "partition", args, 1, 1);
  const std::string_view text = self.text();
  const std::string_view separator = string_argument(runtime, bound[0], "partition");
  if (separator.empty()) runtime.fail(FailureKind::kValue, "empty separator");
  runtime.work(text.size());
  const size_t at = from_right ? text.rfind(separator) : text.find(separator);
  std::vector<Value> items;
  if (at == std::string_view::npos) {
    const Value empty = piece(runtime, self, "");
    items = from_right ? std::vector<Value>{empty, empty, self}
                       : std::vector<Value>{self, empty, empty};
  } else {
    items = {piece(runtime, self, text.substr(0, at)), piece(runtime, self, separator),
             piece(runtime, self, text.substr(at + separator.size()))};
  }
  return runtime.tuple(std::move(items));
}

Value method_partition(Runtime& runtime, const Value& self, const Args& args) {
  return partition(runtime, self, args, false);
}
Value method_rpartition(Runtime& runtime, const Value& self, const Args& args) {
  return partition(runtime, self, args, true);
}

// The part of self that find(sub, start, end) searches, and where it begins.
struct Window {
  std::string_view text;
  size_t begin = 0;  // bytes
  bool valid = true;
};

Window window(Runtime& runtime, const Value& self, const Value& start, const Value& end) {
  const auto length = static_cast<int64_t>(self.string_object().characters);
  const auto bound = [&](const Value& value, int64_t otherwise) {
    if (value.missing() || value.is_none()) return otherwise;
    int64_t at = index_argument(runtime, value);
    if (at < 0) at = std::max<int64_t>(0, at + length);
    return at;
  };
  const int64_t from = bound(start, 0), to = std::min(length, bound(end, length));
  runtime.work(self.text().size());
  if (from > to) return {{}, 0, false};
  const size_t first = byte_offset(self.text(), static_cast<size_t>(from));
  const size_t last = byte_offset(self.text(), static_cast<size_t>(to));
  return {self.text().substr(first, last - first), first, true};
}

int64_t find(Runtime& runtime, const Value& self, const Args& args, bool from_right) {
  const Bound bound = bind_positional(runtime, "find", args, 1, 3);
  const std::string_view wanted = string_argument(runtime, bound[0], "find");
  const Window where = window(runtime, self, bound[1], bound[2]);
  if (!where.valid) return -1;
  const size_t at = from_right ? where.text.rfind(wanted) : where.text.find(wanted);
  if (at == std::string_view::npos) return -1;
  return static_cast<int64_t>(count_characters(self.text().substr(0, where.begin + at)));
}

Value method_find(Runtime& runtime, const Value& self, const Args& args) {
  return Value::integer(find(runtime, self, args, false));
}
Value method_rfind(Runtime& runtime, const Value& self, const Args& args) {
  return Value::integer(find(runtime, self, args, true));
}

Value index(Runtime& runtime, const Value& self, const Args& args, bool from_right) {
  const int64_t at = find(runtime, self, args, from_right);
  if (at < 0) runtime.fail(FailureKind::kValue, "substring not found");
  return Value::integer(at);
}
Value method_index(Runtime& runtime, const Value& self, const Args& args) {
  return index(runtime, self, args, false);
}
Value method_rindex(Runtime& runtime, const Value& self, const Args& args) {
  return index(runtime, self, args, true);
}

Value method_count(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound = bind_positional(runtime, "count", args, 1, 3);
  const std::string_view wanted = string_argument(runtime, bound[0], "count");
  const Window where = window(runtime, self, bound[1], bound[2]);
  if (!where.valid) return Value::integer(0);
  if (wanted.empty()) return Value::integer(static_cast<Int>(count_characters(where.text)) + 1);
  Int count = 0;
  for (size_t at = 0; (at = where.text.find(wanted, at)) != std::string_view::npos; ++count) {
    at += wanted.size();
  }
  return Value::integer(count);
}

Value affix(Runtime& runtime, const Value& self, const Args& args, bool prefix) {
  const std::string name = prefix ? "startswith" : "endswith";
  const Bound bound = bind_positional(runtime, name, args, 1, 3);
  const Window where = window(runtime, self, bound[1], bound[2]);
  const auto matches = [&](const Value& affix) {
    runtime.require_defined(affix);
    if (!affix.is_string()) {
      runtime.type_error(name + " first arg must be str or a tuple of str, not " +
                         type_name(affix));
    }
    return where.valid &&
           (prefix ? where.text.starts_with(affix.text()) : where.text.ends_with(affix.text()));
  };
  if (!bound[0].is(Type::kTuple)) return Value::boolean(matches(bound[0]));
  bool any = false;
  for (const Value& item : bound[0].items()) any = any || matches(item);
  return Value::boolean(any);
}

Value method_startswith(Runtime& runtime, const Value& self, const Args& args) {
  return affix(runtime, self, args, true);
}
Value method_endswith(Runtime& runtime, const Value& self, const Args& args) {
  return affix(runtime, self, args, false);
}

Value method_removeprefix(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound = bind_positional(runtime, "removeprefix", args, 1, 1);
  const std::string_view prefix = string_argument(runtime, bound[0], "removeprefix");
  if (!self.text().starts_with(prefix)) return self;
  return piece(runtime, self, self.text().substr(prefix.size()));
}

Value method_removesuffix(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound = bind_positional(runtime, "removesuffix", args, 1, 1);
  const std::string_view suffix = string_argument(runtime, bound[0], "removesuffix");
  if (!self.text().ends_with(suffix)) return self;
  return piece(runtime, self, self.text().substr(0, self.text().size() - suffix.size()));
}

Value method_join(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound = bind_positional(runtime, "join", args, 1, 1);
  runtime.require_defined(bound[0]);
  TextBuilder out(runtime);
  size_t count = 0;
  for_each(runtime, bound[0], [&](const Value& item) {
    if (!item.is_string() && !self.markup()) {
      runtime.type_error("sequence item " + std::to_string(count) + ": expected str instance, " +
                         type_name(item) + " found");
    }
    if (count++ > 0) out.append(self.text());
    out.append((self.markup() ? escape_html(runtime, item) : item).text());
  });
  return out.value(self.markup());
}

Value method_replace(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound = bind_positional(runtime, "replace", args, 2, 3);
  string_argument(runtime, bound[0], "replace");
  string_argument(runtime, bound[1], "replace");
  const Value with = self.markup() ? escape_html(runtime, bound[1]) : bound[1];
  const int64_t count = bound[2].missing() ? -1 : index_argument(runtime, bound[2]);
  TextBuilder out(runtime);
  append_replaced(out, runtime, self.text(), {bound[0].text(), with.text(), count});
  return out.value(self.markup());
}

struct Entry {
  std::string_view name;
  Function function;
};

constexpr Entry kMethods[] = {
    {"count", method_count},
    {"endswith", method_endswith},
    {"find", method_find},
    {"index", method_index},
    {"join", method_join},
    {"lstrip", method_lstrip},
    {"partition", method_partition},
    {"removeprefix", method_removeprefix},
    {"removesuffix", method_removesuffix},
    {"replace", method_replace},
    {"rfind", method_rfind},
    {"rindex", method_rindex},
    {"rpartition", method_rpartition},
    {"rsplit", method_rsplit},
    {"rstrip", method_rstrip},
    {"split", method_split},
    {"splitlines", method_splitlines},
    {"startswith", method_startswith},
    {"strip", method_strip},
};

}  // namespace

void append_replaced(TextBuilder& out, Runtime& runtime, std::string_view text,
                     const Replacement& replacement) {
  const auto& [from, to, most] = replacement;
  int64_t left = most < 0 ? INT64_MAX : most;
  runtime.work(text.size());
  if (from.empty()) {  // between all characters
    size_t at = 0;
    for (; left > 0; --left) {
      out.append(to);
      if (at >= text.size()) return;
      const size_t start = at;
      next_character(text, at);
      out.append(text.substr(start, at - start));
    }
    out.append(text.substr(at));
    return;
  }
  size_t at = 0;
  for (; left > 0; --left) {
    const size_t found = text.find(from, at);
    if (found == std::string_view::npos) break;
    out.append(text.substr(at, found - at)).append(to);
    at = found + from.size();
  }
  out.append(text.substr(at));
}

Function find_string_method(std::string_view name) {
  const auto* at = std::find_if(std::begin(kMethods), std::end(kMethods),
                                [name](const Entry& entry) { return entry.name == name; });
  return at != std::end(kMethods) ? at->function : find_string_form_method(name);
}

}  // namespace fathom::jinja
