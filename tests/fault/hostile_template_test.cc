// Chat templates that want to crash, hang or eat the machine: each ends with a message.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "text/jinja/template.h"

namespace fathom::jinja {
namespace {

using Json = nlohmann::ordered_json;

// Small limits keep the tests fast; the paths are those of the real ones.
Limits small_limits() {
  Limits limits;
  limits.work = 200'000'000;
  limits.live_bytes = size_t{16} << 20;
  return limits;
}

Result<std::string> render(const std::string& source, const Json& variables = Json::object()) {
  const auto parsed = Template::parse(source);
  if (!parsed) return error(parsed.error());
  return parsed->render(variables, small_limits());
}

std::string repeat(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

struct Hostile {
  const char* name;
  std::string source;
  const char* message;  // part of what is said
};

void PrintTo(const Hostile& hostile, std::ostream* out) {
  *out << hostile.name;
}

class HostileTemplate : public testing::TestWithParam<Hostile> {};

TEST_P(HostileTemplate, EndsWithAMessage) {
  const auto text = render(GetParam().source, {{"x", "text"}, {"l", {1, 2, 3}}});
  ASSERT_FALSE(text) << text->substr(0, 200);
  EXPECT_NE(text.error().message().find(GetParam().message), std::string::npos)
      << text.error().message();
}

// Grows `v` by `step` thirty times and more, whatever its size.
std::string growth(const std::string& first, const std::string& step) {
  return "{% set ns = namespace(v=" + first + ") %}{% for i in range(100) %}{% set ns.v = " + step +
         " %}{% endfor %}{{ ns.v }}";
}

std::vector<Hostile> hostile_templates() {
  const std::string deep_list =
      "{% set ns = namespace(v=[]) %}{% for i in range(100000) %}{% set ns.v = [ns.v] %}{% endfor "
      "%}";
  return {
      // Syntax that never ends or nests without end.
      {"unclosed_if", "{% if x %}", "needs 'elif' or 'else' or 'endif'"},
      {"unclosed_print", "{{ x", "line 1"},
      {"unclosed_string", "{{ 'x }}", "unexpected char"},
      {"unclosed_comment", "{# x", "Missing end of comment"},
      {"unclosed_raw", "{% raw %} x", "Missing end of raw"},
      {"nested_parentheses", "{{ " + repeat("(", 100000), "nested too deeply"},
      {"nested_lists", "{{ " + repeat("[", 100000), "nested too deeply"},
      {"nested_dicts", "{{ " + repeat("{1:", 50000), "nested too deeply"},
      {"nested_calls", "{{ " + repeat("f(", 50000), "nested too deeply"},
      {"nested_subscripts", "{{ " + repeat("l[", 50000), "nested too deeply"},
      {"many_minus", "{{ " + repeat("-", 100000) + "1 }}", "nested too deeply"},
      {"many_not", "{{ " + repeat("not ", 100000) + "1 }}", "nested too deeply"},
      {"many_else", "{{ " + repeat("1 if 0 else ", 50000) + "1 }}", "nested too deeply"},
      {"long_sum", "{{ 1" + repeat("+x", 50000) + " }}", "nested too deeply"},
      {"long_path", "{{ x" + repeat(".a", 50000) + " }}", "nested too deeply"},
      {"long_filters", "{{ x" + repeat("|upper", 50000) + " }}", "nested too deeply"},
      {"nested_ifs", repeat("{% if x %}", 20000), "nested too deeply"},
      {"nested_fors", repeat("{% for a in l %}", 20000), "nested too deeply"},
      {"nested_macros", repeat("{% macro m() %}", 20000), "nested too deeply"},
      {"nested_targets", "{% set " + repeat("(", 50000) + "a", "nested too deeply"},
      {"huge_integer", "{{ " + repeat("9", 100000) + " }}", "128 bits"},
      // Recursion at run time.
      {"macro_calls_itself", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "too deeply"},
      {"macros_call_each_other",
       "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
       "too deeply"},
      {"macro_as_default", "{% macro m(p=m()) %}{% endmacro %}{{ m() }}", "too deeply"},
      {"caller_calls_itself",
       "{% macro m() %}{{ caller }}{% call m() %}{% endcall %}{% endmacro %}{{ m() }}",
       "too deeply"},
      {"loop_calls_itself", "{% for a in [l] recursive %}{{ loop([l]) }}{% endfor %}",
       "too deeply"},
      {"namespace_holds_itself", "{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}",
       "too deeply"},
      {"list_in_namespace_holds_it",
       "{% set ns = namespace() %}{% set ns.l = [ns, ns] %}{{ ns.l }}", ""},
      {"lists_in_lists", deep_list + "{{ ns.v }}", "too deeply"},
      {"generators_of_generators",
       "{% set ns = namespace(v=l) %}{% for i in range(100000) %}{% set ns.v = ns.v | map('abs') "
       "%}{% endfor %}{{ ns.v | list }}",
       "too deeply"},
      {"json_of_itself", "{% set ns = namespace() %}{% set ns.l = [ns] %}{{ ns.l | tojson }}",
       "not JSON serializable"},
      // Time.
      {"nested_ranges", repeat("{% for a in range(99999) %}", 5) + repeat("{% endfor %}", 5),
       "runs too long"},
      {"range_too_big", "{{ range(1000000000) | list }}", "Range too big"},
      {"exponential_macros",
       "{% macro a0() %}{% endmacro %}" +
           [] {
             std::string text;
             for (int i = 1; i < 60; ++i) {
               const std::string call = "{{ a" + std::to_string(i - 1) + "() }}";
               text += "{% macro a" + std::to_string(i) + "() %}" + call + call + "{% endmacro %}";
             }
             return text + "{{ a59() }}";
           }(),
       "runs too long"},
      {"search_again_and_again",
       "{% set s = 'a' * 1000000 %}{% for i in range(99999) %}{{ 'b' in s }}{% endfor %}",
       "runs too long"},
      {"sort_again_and_again",
       "{% set s = range(9999) | list %}{% for i in range(99999) %}{{ s | sort | first }}{% "
       "endfor "
       "%}",
       "runs too long"},
      {"upper_again_and_again",
       "{% set s = 'a' * 1000000 %}{% for i in range(99999) %}{{ (s | upper)[0] }}{% endfor %}",
       "runs too long"},
      // Memory.
      {"string_doubles", growth("'xxxxxxxx'", "ns.v + ns.v"), "MiB of memory"},
      {"string_doubles_by_tilde", growth("'xxxxxxxx'", "ns.v ~ ns.v"), "MiB of memory"},
      {"list_doubles", growth("[1]", "ns.v + ns.v"), "MiB of memory"},
      {"replace_explodes", growth("'xx'", "ns.v.replace('x', 'xxxx')"), "MiB of memory"},
      {"join_explodes", growth("'xx'", "ns.v | join(ns.v)"), "MiB of memory"},
      {"indent_explodes", growth("'x\\nx'", "ns.v | indent(100000000)"), "MiB of memory"},
      {"repeat_string", "{{ 'x' * 100000000000 }}", "MiB of memory"},
      {"repeat_list", "{{ [1, 2] * 100000000000 }}", "MiB of memory"},
      {"center", "{{ x | center(100000000000) }}", "MiB of memory"},
      {"ljust", "{{ x.ljust(100000000000) }}", "MiB of memory"},
      {"zfill", "{{ x.zfill(100000000000) }}", "MiB of memory"},
      {"expandtabs", "{{ '\\t'.expandtabs(100000000000) }}", "MiB of memory"},
      {"percent_width", "{{ '%100000000000d' % 1 }}", "MiB of memory"},
      {"percent_star", "{{ '%*d' % (100000000000, 1) }}", "MiB of memory"},
      {"percent_precision", "{{ '%.100000000000f' % 1 }}", "not supported"},
      {"brace_width", "{{ '{:100000000000}'.format(1) }}", "MiB of memory"},
      {"json_indent", "{{ [[1]] | tojson(indent=100000000000) }}", "MiB of memory"},
      {"slices", "{{ l | slice(100000000000) | list }}", ""},
      {"batch_fill", "{{ l | batch(100000000000, 0) | list }}", ""},
      {"strftime_width", "{{ strftime_now('%1000000000d') }}", "too much of it"},
      {"output_grows", "{% set s = 'x' * 1000000 %}{% for i in range(99999) %}{{ s }}{% endfor %}",
       "MiB of memory"},
      {"many_strings_kept",
       "{% set s = 'x' * 1000000 %}{% set ns = namespace(v=[]) %}{% for i in range(99999) %}{% set "
       "ns.v = ns.v + [s ~ i] %}{% endfor %}",
       "MiB of memory"},
      {"power", "{{ 10 ** 1000000000 }}", "128 bits"},
      {"power_tower", growth("9", "ns.v * ns.v"), "128 bits"},
      {"round_precision", "{{ 5 | round(1000000000, 'ceil') }}", "128 bits"},
      // What the sandbox hides.
      {"class_access", "{{ x.__class__.__mro__ }}", "unsafe"},
      {"class_item", "{{ x['__class__']['__base__'] }}", "unsafe"},
      {"format_attribute", "{{ '{0.__class__.__init__}'.format(x) }}", ""},
      {"list_mutation", "{% for a in l %}{{ l.append(a) }}{% endfor %}", "unsafe"},
      {"dict_mutation", "{% set d = {} %}{{ d.update({'a': d}) }}", "unsafe"},
      // Broken bytes.
      {"not_utf8", std::string("{{ '\xc3' }}"), "UTF-8"},
      {"surrogate", "{{ '\\ud800' }}", "surrogate"},
  };
}

INSTANTIATE_TEST_SUITE_P(All, HostileTemplate, testing::ValuesIn(hostile_templates()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(HostileTemplate, NullBytesAreText) {
  EXPECT_EQ(*render(std::string("a\0b{{ 'c\0' }}", 13)), std::string("a\0bc\0", 5));
}

TEST(HostileTemplate, LoopKeptAfterItsEndIsHarmless) {
  EXPECT_EQ(*render("{% set ns = namespace() %}{% for i in [1,2] if i %}{% set ns.l = loop %}"
                    "{% endfor %}{{ ns.l.index }}{{ ns.l.last }}{{ ns.l.length }}"),
            "2True2");
}

TEST(HostileTemplate, MacroKeptAfterItsScopeIsHarmless) {
  EXPECT_EQ(*render("{% set ns = namespace() %}{% for i in [1,2] %}{% macro m(a=i) %}{{ a is "
                    "defined }}{% endmacro %}{% set ns.m = m %}{% endfor %}{{ ns.m(1) }}"),
            "True");
}

TEST(HostileTemplate, ManyKeysCostLinearTime) {
  std::string source = "{% set d = {";
  for (int i = 0; i < 20000; ++i) source += std::to_string(i) + ":1,";
  EXPECT_EQ(*render(source + "} %}{{ d | length }}{{ 19999 in d }}"), "20000True");
}

TEST(HostileTemplate, MemoryIsGivenBackAfterEachRendering) {
  const auto parsed =
      Template::parse("{% set ns = namespace() %}{% set ns.a = [ns, 'x' * 1000000] %}");
  ASSERT_TRUE(parsed);
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(parsed->render(Json::object(), small_limits()));
}

}  // namespace
}  // namespace fathom::jinja
