// Filters that make text.
#include <algorithm>
#include <iterator>

#include "text/jinja/arguments.h"
#include "text/jinja/attributes.h"
#include "text/jinja/filters.h"
#include "text/jinja/format.h"
#include "text/jinja/iteration.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/jinja/string_methods.h"
#include "text/jinja/unicode.h"

namespace fathom::jinja {

namespace {

// Calls a method of the subject's text with the given arguments.
Value through_method(Runtime& runtime, const Value& subject, std::string_view method,
                     const Args& args) {
  return find_string_method(method)(runtime, soft_string(runtime, subject), args);
}

Value filter_upper(Runtime& runtime, const Value& subject, const Args& args) {
  return through_method(runtime, subject, "upper", args);
}
Value filter_lower(Runtime& runtime, const Value& subject, const Args& args) {
  return through_method(runtime, subject, "lower", args);
}
Value filter_capitalize(Runtime& runtime, const Value& subject, const Args& args) {
  return through_method(runtime, subject, "capitalize", args);
}

Value filter_title(Runtime& runtime, const Value& subject, const Args& args) {
  bind(runtime, "title", args, {}, 0);
  const Value text = soft_string(runtime, subject);
  runtime.reserve(text.text().size() * 6);
  runtime.work(text.text().size() * 8);
  // Words begin after these, so that "it's" stays one word, unlike with str.title.
  static constexpr std::u32string_view kBefore = U"-({[<";
  const auto separates = [](char32_t c) {
    return is_space(c) || kBefore.find(c) != std::u32string_view::npos;
  };
  const std::u32string characters = decode(text.text());
  std::string out;
  for (size_t i = 0; i < characters.size();) {
    size_t end = i;
    const bool separator = separates(characters[i]);
    while (end < characters.size() && separates(characters[end]) == separator) ++end;
    const std::u32string_view word(characters.data() + i, end - i);
    out += to_upper(encode(word.substr(0, 1))) + to_lower(encode(word.substr(1)));
    i = end;
  }
  return runtime.string(std::move(out));
}

Value filter_trim(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound = bind(runtime, "trim", args, {"chars"}, 0);
  Args chars;
  if (!bound[0].missing()) chars.positional.push_back(bound[0]);
  return through_method(runtime, subject, "strip", chars);
}

Value filter_replace(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound = bind(runtime, "replace", args, {"old", "new", "count"}, 2);
  const bool all = bound[2].missing() || bound[2].is_none();
  const std::string text = str(runtime, subject), from = str(runtime, bound[0]),
                    to = str(runtime, bound[1]);
  TextBuilder out(runtime);
  append_replaced(out, runtime, text, {from, to, all ? -1 : index_argument(runtime, bound[2])});
  return out.value();
}

Value filter_string(Runtime& runtime, const Value& subject, const Args& args) {
  bind(runtime, "string", args, {}, 0);
  return soft_string(runtime, subject);
}

Value filter_safe(Runtime& runtime, const Value& subject, const Args& args) {
  bind(runtime, "safe", args, {}, 0);
  return soft_string(runtime, subject).with_markup(true);
}

Value filter_escape(Runtime& runtime, const Value& subject, const Args& args) {
  bind(runtime, "escape", args, {}, 0);
  return escape_html(runtime, subject);
}

Value filter_forceescape(Runtime& runtime, const Value& subject, const Args& args) {
  bind(runtime, "forceescape", args, {}, 0);
  return escape_html(runtime, subject.markup() ? subject.with_markup(false) : subject);
}

Value filter_join(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound = bind(runtime, "join", args, {"d", "attribute"}, 0);
  const std::string separator = bound[0].missing() ? "" : str(runtime, bound[0]);
  const AttributePath path(runtime, bound[1].missing() ? Value::none() : bound[1]);
  TextBuilder out(runtime);
  bool first = true;
  for_each(runtime, subject, [&](const Value& item) {
    if (!first) out.append(separator);
    first = false;
    append_str(out, runtime, path.get(runtime, item));
  });
  return out.value();
}

Value filter_indent(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound = bind(runtime, "indent", args, {"width", "first", "blank"}, 0);
  if (!subject.is_string()) {
    arithmetic(runtime, Op::kAdd, subject, runtime.string("\n"));  // throws what Python throws
    runtime.type_error("indent wants a string");
  }
  std::string indentation = "    ";
  if (bound[0].is_string()) {
    indentation = bound[0].text();
  } else if (!bound[0].missing()) {
    TextBuilder blanks(runtime);
    const int64_t width = index_argument(runtime, bound[0]);
    blanks.repeat(" ", static_cast<size_t>(std::max<int64_t>(0, width)));
    indentation = blanks.take();
  }
  const bool blank = truthy(bound[2]);
  const std::string text = std::string(subject.text()) + "\n";
  TextBuilder out(runtime);
  if (truthy(bound[1])) out.append(indentation);
  bool first = true;
  for (std::string_view line : split_lines(text, false)) {
    if (!first) {
      out.append('\n');
      if (blank || !line.empty()) out.append(indentation);
    }
    first = false;
    out.append(line);
  }
  return out.value(subject.markup());
}

Value filter_center(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound = bind(runtime, "center", args, {"width"}, 0);
  Args width;
  width.positional.push_back(bound[0].missing() ? Value::integer(80) : bound[0]);
  return through_method(runtime, subject, "center", width);
}

Value filter_format(Runtime& runtime, const Value& subject, const Args& args) {
  if (!args.positional.empty() && !args.keywords.empty()) {
    runtime.fail(FailureKind::kRuntime,
                 "can't handle positional and keyword arguments at the same time");
  }
  const Value format = soft_string(runtime, subject);
  if (args.keywords.empty()) return format_percent(runtime, format, runtime.tuple(args.positional));
  auto dict = std::make_shared<DictObject>();
  for (const auto& [name, value] : args.keywords) dict->set(runtime.string(name), value);
  return format_percent(runtime, format, runtime.dict(std::move(dict)));
}

Value filter_truncate(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound = bind(runtime, "truncate", args, {"length", "killwords", "end", "leeway"}, 0);
  const int64_t length = bound[0].missing() ? 255 : index_argument(runtime, bound[0]);
  const Value end = bound[2].missing() ? runtime.string("...") : bound[2];
  const bool default_leeway = bound[3].missing() || bound[3].is_none();
  const int64_t leeway = default_leeway ? 5 : index_argument(runtime, bound[3]);
  string_argument(runtime, end, "truncate");
  const auto end_size = static_cast<int64_t>(end.string_object().characters);
  if (length < end_size || leeway < 0) {
    runtime.fail(FailureKind::kValue,
                 "truncate: expected length >= " + std::to_string(end_size) + " and leeway >= 0");
  }
  if (!subject.is_string()) {
    runtime.require_defined(subject);
    runtime.type_error(std::string("object of type '") + type_name(subject) +
                       "' cannot be truncated");
  }
  const auto size = static_cast<int64_t>(subject.string_object().characters);
  if (size <= length + leeway) return subject;
  std::string_view kept =
      subject.text().substr(0, byte_offset(subject.text(), static_cast<size_t>(length - end_size)));
  if (!truthy(bound[1])) kept = kept.substr(0, std::min(kept.rfind(' '), kept.size()));
  return arithmetic(runtime, Op::kAdd, runtime.string(std::string(kept), subject.markup()), end);
}

Value filter_tojson(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound =
      bind(runtime, "tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"}, 0);
  JsonStyle style;
  style.ascii = truthy(bound[0]);
  if (!bound[1].missing() && !bound[1].is_none()) {
    style.pretty = true;
    style.item_separator = ",";
    if (bound[1].is_string()) {
      style.indent = bound[1].text();
    } else {
      TextBuilder blanks(runtime);
      const int64_t width = std::max<int64_t>(0, index_argument(runtime, bound[1]));
      style.indent = blanks.repeat(" ", static_cast<size_t>(width)).take();
    }
  }
  if (!bound[2].missing() && !bound[2].is_none()) {
    const std::vector<Value> parts = to_vector(runtime, bound[2]);
    if (parts.size() != 2) runtime.fail(FailureKind::kValue, "separators must be a pair");
    style.item_separator = string_argument(runtime, parts[0], "tojson");
    style.key_separator = string_argument(runtime, parts[1], "tojson");
  }
  style.sort_keys = truthy(bound[3]);
  TextBuilder out(runtime);
  append_json(out, runtime, subject, style);
  return out.value();
}

bool url_safe(char c, bool query) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("_.-~").find(c) != std::string_view::npos || (c == '/' && !query);
}

void append_quoted(TextBuilder& out, std::string_view text, bool query) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  for (char c : text) {
    if (url_safe(c, query)) {
      out.append(c);
    } else if (c == ' ' && query) {
      out.append('+');
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out.append('%').append(kHex[byte >> 4]).append(kHex[byte & 15]);
    }
  }
}

Value filter_urlencode(Runtime& runtime, const Value& subject, const Args& args) {
  bind(runtime, "urlencode", args, {}, 0);
  TextBuilder out(runtime);
  if (subject.is_string() || !iterable(subject)) {
    append_quoted(out, str(runtime, subject), false);
    return out.value();
  }
  std::vector<Value> pairs;
  if (subject.is(Type::kDict)) {
    for (const auto& [key, value] : subject.dict().entries) {
      runtime.push(pairs, runtime.pair(key, value));
    }
  } else {
    pairs = to_vector(runtime, subject);
  }
  for (size_t i = 0; i < pairs.size(); ++i) {
    const std::vector<Value> pair = to_vector(runtime, pairs[i]);
    if (pair.size() != 2) runtime.fail(FailureKind::kValue, "urlencode wants pairs");
    if (i > 0) out.append('&');
    append_quoted(out, str(runtime, pair[0]), true);
    out.append('=');
    append_quoted(out, str(runtime, pair[1]), true);
  }
  return out.value();
}

Value filter_xmlattr(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound = bind(runtime, "xmlattr", args, {"autospace"}, 0);
  if (!subject.is(Type::kDict)) runtime.type_error("xmlattr wants a mapping");
  TextBuilder out(runtime);
  const bool space = bound[0].missing() || truthy(bound[0]);
  bool first = true;
  for (const auto& [key, value] : subject.dict().entries) {
    if (value.is_none() || value.undefined()) continue;
    if (string_argument(runtime, key, "xmlattr").find_first_of(" \t\n\r\f\v/>=") !=
        std::string_view::npos) {
      runtime.fail(FailureKind::kValue,
                   "Invalid character in attribute name: " + repr(runtime, key));
    }
    if (!first || space) out.append(' ');
    first = false;
    out.append(escape_html(runtime, key).text()).append("=\"");
    out.append(escape_html(runtime, value).text()).append('"');
  }
  return out.value();
}

Value filter_wordcount(Runtime& runtime, const Value& subject, const Args& args) {
  bind(runtime, "wordcount", args, {}, 0);
  const Value text = soft_string(runtime, subject);
  runtime.work(text.text().size());
  Int words = 0;
  bool inside = false;
  for (size_t i = 0; i < text.text().size();) {
    const bool word = is_word(next_character(text.text(), i));
    if (word && !inside) ++words;
    inside = word;
  }
  return Value::integer(words);
}

constexpr NamedFunction kFilters[] = {
    {"capitalize", filter_capitalize},
    {"center", filter_center},
    {"e", filter_escape},
    {"escape", filter_escape},
    {"forceescape", filter_forceescape},
    {"format", filter_format},
    {"indent", filter_indent},
    {"join", filter_join},
    {"lower", filter_lower},
    {"replace", filter_replace},
    {"safe", filter_safe},
    {"string", filter_string},
    {"title", filter_title},
    {"tojson", filter_tojson},
    {"trim", filter_trim},
    {"truncate", filter_truncate},
    {"upper", filter_upper},
    {"urlencode", filter_urlencode},
    {"wordcount", filter_wordcount},
    {"xmlattr", filter_xmlattr},
};

}  // namespace

Function find_text_filter(std::string_view name) {
  return find_named(std::begin(kFilters), std::end(kFilters), name);
}

}  // namespace fathom::jinja
