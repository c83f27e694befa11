// Methods of str: case, character classes, padding, formatting.
#include <algorithm>
#include <iterator>

#include "text/jinja/arguments.h"
#include "text/jinja/format.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/jinja/string_methods.h"
#include "text/jinja/unicode.h"

namespace fathom::jinja {

namespace {

template <std::string (*Map)(std::string_view)>
Value mapped(Runtime& runtime, const Value& self, const Args& args) {
  bind_positional(runtime, "case mapping", args, 0, 0);
  // A character may become three, and mapping holds them as code points.
  runtime.reserve(self.text().size() * 6);
  runtime.work(self.text().size() * 8);
  return runtime.string(Map(self.text()), self.markup());
}

// All characters satisfy the predicate, and there is at least one.
template <bool (*Test)(char32_t)>
Value all_of(Runtime& runtime, const Value& self, const Args& args) {
  bind_positional(runtime, "character class", args, 0, 0);
  const std::string_view text = self.text();
  runtime.work(text.size());
  for (size_t i = 0; i < text.size();) {
    if (!Test(next_character(text, i))) return Value::boolean(false);
  }
  return Value::boolean(!text.empty());
}

bool is_alnum(char32_t c) {
  return is_alpha(c) || is_decimal(c) || is_digit(c) || is_numeric(c);
}

Value method_isprintable(Runtime& runtime, const Value& self, const Args& args) {
  if (self.text().empty()) return Value::boolean(true);
  return all_of<is_printable>(runtime, self, args);
}

Value method_isascii(Runtime& runtime, const Value& self, const Args& args) {
  bind_positional(runtime, "isascii", args, 0, 0);
  return Value::boolean(self.string_object().ascii());
}

Value method_isidentifier(Runtime& runtime, const Value& self, const Args& args) {
  bind_positional(runtime, "isidentifier", args, 0, 0);
  return Value::boolean(is_identifier(self.text()));
}

Value method_istitle(Runtime& runtime, const Value& self, const Args& args) {
  bind_positional(runtime, "istitle", args, 0, 0);
  const std::string_view text = self.text();
  bool inside = false, any = false;
  for (size_t i = 0; i < text.size();) {
    const char32_t c = next_character(text, i);
    if (is_upper(c) || is_title(c)) {
      if (inside) return Value::boolean(false);
      inside = any = true;
    } else if (is_lower(c)) {
      if (!inside) return Value::boolean(false);
    } else {
      inside = false;
    }
  }
  return Value::boolean(any);
}

Value justified(Runtime& runtime, const Value& self, const Args& args, char align) {
  const Bound bound = bind_positional(runtime, "justification", args, 1, 2);
  const auto length = static_cast<int64_t>(self.string_object().characters);
  const int64_t pad = std::max<int64_t>(0, index_argument(runtime, bound[0]) - length);
  Value fill = bound[1].missing() ? runtime.string(" ") : bound[1];
  if (!fill.is_string() || fill.string_object().characters != 1) {
    runtime.type_error("The fill character must be exactly one character long");
  }
  if (self.markup()) fill = escape_html(runtime, fill);
  // str.center puts the odd blank on the left when width is odd.
  const int64_t left = align == '<' ? 0 : align == '>' ? pad : pad / 2 + (pad & (length + pad) & 1);
  TextBuilder out(runtime);
  out.repeat(fill.text(), static_cast<size_t>(left)).append(self.text());
  out.repeat(fill.text(), static_cast<size_t>(pad - left));
  return out.value(self.markup());
}

Value method_center(Runtime& runtime, const Value& self, const Args& args) {
  return justified(runtime, self, args, '^');
}
Value method_ljust(Runtime& runtime, const Value& self, const Args& args) {
  return justified(runtime, self, args, '<');
}
Value method_rjust(Runtime& runtime, const Value& self, const Args& args) {
  return justified(runtime, self, args, '>');
}

Value method_zfill(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound = bind_positional(runtime, "zfill", args, 1, 1);
  FormatSpec spec;
  spec.fill = '0';
  spec.width = index_argument(runtime, bound[0]);
  const std::string_view text = self.text();
  const bool sign = !text.empty() && (text[0] == '-' || text[0] == '+');
  TextBuilder out(runtime);
  append_padded(out, text, spec, sign ? '=' : '>');
  return out.value(self.markup());
}

Value method_expandtabs(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound = bind(runtime, "expandtabs", args, {"tabsize"}, 0);
  const int64_t size = bound[0].missing() ? 8 : index_argument(runtime, bound[0]);
  const std::string_view text = self.text();
  TextBuilder out(runtime);
  int64_t column = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t start = i;
    const char32_t c = next_character(text, i);
    if (c == '\t') {
      if (size > 0) {
        const int64_t blanks = size - column % size;
        out.repeat(" ", static_cast<size_t>(blanks));
        column += blanks;
      }
      continue;
    }
    out.append(text.substr(start, i - start));
    column = c == '\n' || c == '\r' ? 0 : column + 1;
  }
  return out.value(self.markup());
}

Value method_format(Runtime& runtime, const Value& self, const Args& args) {
  return format_braces(runtime, self, args, Value());
}

Value method_format_map(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound = bind_positional(runtime, "format_map", args, 1, 1);
  return format_braces(runtime, self, Args(), bound[0]);
}

struct Entry {
  std::string_view name;
  Function function;
};

constexpr Entry kMethods[] = {
    {"capitalize", mapped<to_capitalized>},
    {"casefold", mapped<to_casefold>},
    {"center", method_center},
    {"expandtabs", method_expandtabs},
    {"format", method_format},
    {"format_map", method_format_map},
    {"isalnum", all_of<is_alnum>},
    {"isalpha", all_of<is_alpha>},
    {"isascii", method_isascii},
    {"isdecimal", all_of<is_decimal>},
    {"isdigit", all_of<is_digit>},
    {"isidentifier", method_isidentifier},
    {"islower",
     [](Runtime& runtime, const Value& self, const Args& args) {
       bind_positional(runtime, "islower", args, 0, 0);
       return Value::boolean(text_is_lower(self.text()));
     }},
    {"isnumeric", all_of<is_numeric>},
    {"isprintable", method_isprintable},
    {"isspace", all_of<is_space>},
    {"istitle", method_istitle},
    {"isupper",
     [](Runtime& runtime, const Value& self, const Args& args) {
       bind_positional(runtime, "isupper", args, 0, 0);
       return Value::boolean(text_is_upper(self.text()));
     }},
    {"ljust", method_ljust},
    {"lower", mapped<to_lower>},
    {"rjust", method_rjust},
    {"swapcase", mapped<to_swapped_case>},
    {"title", mapped<to_title>},
    {"upper", mapped<to_upper>},
    {"zfill", method_zfill},
};

}  // namespace

Function find_string_form_method(std::string_view name) {
  const auto* at = std::find_if(std::begin(kMethods), std::end(kMethods),
                                [name](const Entry& entry) { return entry.name == name; });
  return at != std::end(kMethods) ? at->function : nullptr;
}

}  // namespace fathom::jinja
