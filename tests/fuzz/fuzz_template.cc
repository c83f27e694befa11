// Fuzz target: the chat template interpreter, on any bytes as a template.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "text/jinja/template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using fathom::jinja::Limits;
  static const auto* const kVariables =
      new nlohmann::ordered_json(nlohmann::ordered_json::parse(R"({
    "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "hé <b>"},
                 {"role": "assistant", "content": null,
                  "tool_calls": [{"function": {"name": "f", "arguments": {"x": [1, 2.5, true]}}}]}],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
    "add_generation_prompt": true, "bos_token": "<s>", "n": 3, "s": "a-b", "l": [3, 1, 2]})"));
  const auto parsed = fathom::jinja::Template::parse({reinterpret_cast<const char*>(data), size});
  if (!parsed) return 0;
  Limits limits;
  limits.work = 3'000'000;
  limits.live_bytes = size_t{4} << 20;
  if (const auto text = parsed->render(*kVariables, limits);
      !text && text.error().message().empty()) {
    __builtin_trap();  // an error without words
  }
  return 0;
}
