// The template interpreter against what Jinja 3.1.6 renders in transformers' environment.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "text/jinja/template.h"

namespace fathom::jinja {
namespace {

using Json = nlohmann::ordered_json;

// The moment the cases were rendered at: 2026-03-07 09:05:03, a Saturday.
std::tm fixed_time() {
  std::tm time{};
  time.tm_year = 126;
  time.tm_mon = 2;
  time.tm_mday = 7;
  time.tm_hour = 9;
  time.tm_min = 5;
  time.tm_sec = 3;
  time.tm_wday = 6;
  time.tm_yday = 65;
  return time;
}

Result<std::string> render(const std::string& source, const Json& variables = Json::object(),
                           const Limits& limits = Limits()) {
  const auto parsed = Template::parse(source);
  if (!parsed) return error(parsed.error());
  return parsed->render(variables, limits, fixed_time);
}

std::string message_of(const Result<std::string>& result) {
  return result ? "no error: " + *result : result.error().message();
}

// What Jinja does and this interpreter says it does not: each must be refused by name.
bool known_unsupported(std::string_view message) {
  static constexpr std::string_view kNames[] = {
      "filter 'wordwrap'",   "filter 'pprint'",    "filter 'random'", "filter 'striptags'",
      "filter 'urlize'",     "attribute 'encode'", "'bit_length'",    "beyond 128 bits",
      "the variable `self`", "complex numbers"};
  return std::any_of(std::begin(kNames), std::end(kNames), [message](std::string_view name) {
    return message.find(name) != std::string_view::npos;
  });
}

TEST(Jinja, RendersAsJinja) {
  std::ifstream stream(std::string(FATHOM_TEST_DATA_DIR) + "/chat/jinja/cases.json");
  ASSERT_TRUE(stream.good());
  const Json file = Json::parse(stream);
  size_t texts = 0, errors = 0, unsupported = 0;
  for (const Json& c : file["cases"]) {
    const auto source = c["t"].get<std::string>();
    const auto text = render(source, file["variables"][c["v"].get<size_t>()]);
    if (!text && text.error().code() == Code::kUnsupported) {
      ++unsupported;
      EXPECT_TRUE(known_unsupported(text.error().message())) << source << ": " << message_of(text);
    } else if (c.contains("o")) {
      ++texts;
      ASSERT_TRUE(text) << source << ": " << text.error().message();
      EXPECT_EQ(*text, c["o"].get<std::string>()) << source;
    } else {
      ++errors;
      EXPECT_FALSE(text) << source << ": " << *text << ", not " << c["e"];
      if (!text) {
        EXPECT_NE(text.error().message().find("line "), std::string::npos)
            << source << ": " << text.error().message();
      }
    }
  }
  EXPECT_GT(texts, 2500u);
  EXPECT_GT(errors, 2000u);
  EXPECT_LT(unsupported, 100u);
}

TEST(Jinja, ErrorsNameLineAndConstruct) {
  const std::map<std::string, std::string> cases = {
      {"a\n{{ 'x' + 1 }}",
       "line 2 of the chat template: TypeError: can only concatenate str (not "
       "\"int\") to str"},
      {"\n\n{% include 'x' %}", "line 3 of the chat template: {% include %} is not supported"},
      {"{{ x | pprint }}", "line 1 of the chat template: filter 'pprint' is not supported"},
      {"\n{% frob %}",
       "line 2 of the chat template: TemplateSyntaxError: Encountered unknown tag "
       "'frob'."},
      {"\n{{ raise_exception('No, thanks.') }}",
       "line 2 of the chat template: the template refuses this input: No, thanks."},
      {"{{ x.y.z }}", "line 1 of the chat template: UndefinedError: 'x' is undefined"},
      {"{% if a %}\n{% for b in c %}\n", "needs 'endfor'"},
      {"{{ [].append(1) }}",
       "SecurityError: access to attribute 'append' of 'list' object is "
       "unsafe."},
  };
  for (const auto& [source, expected] : cases) {
    EXPECT_NE(message_of(render(source)).find(expected), std::string::npos)
        << source << ": " << message_of(render(source));
  }
}

TEST(Jinja, IntegersOfJsonAreExact) {
  const Json variables = {{"big", 18446744073709551615u}, {"small", -9223372036854775807 - 1}};
  EXPECT_EQ(*render("{{ big }} {{ small }} {{ big * 2 }} {{ [big] | tojson }}", variables),
            "18446744073709551615 -9223372036854775808 36893488147419103230 "
            "[18446744073709551615]");
}

TEST(Jinja, InvalidInputIsRefused) {
  EXPECT_NE(message_of(render("{{ x }}", Json::array())).find("must be a JSON object"),
            std::string::npos);
  EXPECT_NE(message_of(render("{{ x }}", {{"x", "\xff"}})).find("not valid UTF-8"),
            std::string::npos);
  Json deep = 1;
  for (int i = 0; i < 1000; ++i) deep = Json::array({deep});
  EXPECT_NE(message_of(render("{{ x }}", {{"x", deep}})).find("nested too deeply"),
            std::string::npos);
  EXPECT_NE(message_of(render(std::string(2 << 20, 'x'))).find("at most"), std::string::npos);
}

TEST(Jinja, ParsedOnceRenderedOften) {
  const auto parsed = Template::parse(
      "{% macro m(x) %}{{ x }}{% endmacro %}{% set ns = namespace(self_=none) %}"
      "{% set ns.self_ = ns %}{% for i in range(n) %}{{ m(i) }}{% endfor %}");
  ASSERT_TRUE(parsed);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(*parsed->render({{"n", 3}}), "012");
}

}  // namespace
}  // namespace fathom::jinja
