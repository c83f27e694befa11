// Reads config.json: the list of known architectures, overrides, and the one message of refusal.
#include "model/config/config.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/file.h"
#include "model/config/builders.h"
#include "model/config/reader.h"

namespace fathom {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxConfigBytes = uint64_t{4} << 20;  // released ones have less than 10 KB
constexpr int kMaxDepth = 32;                            // of objects and lists; released ones: 3

struct Member {
  const char* model_type;
  const char* architecture;
  void (*build)(config::ConfigReader&, ModelConfig&);
};

// Every architecture this build knows. A new one is a builder file and a line here.
constexpr Member kMembers[] = {
    {"llama", "LlamaForCausalLM", config::build_llama},
    {"qwen2", "Qwen2ForCausalLM", config::build_qwen2},
    {"deepseek", "DeepseekForCausalLM", config::build_deepseek},
    {"deepseek_v2", "DeepseekV2ForCausalLM", config::build_deepseek_v2},
    {"deepseek_v3", "DeepseekV3ForCausalLM", config::build_deepseek_v3},
};
// Members of the family that are known but not yet built.
constexpr const char* kLater[] = {"deepseek_v32", "deepseek_v4", "deepseek_v41"};

Result<json> parse_json(std::string_view text, const std::string& source) {
  // Depth is checked while parsing: deep nesting would be slow to walk later.
  bool too_deep = false;
  const json::parser_callback_t check_depth = [&](int depth, json::parse_event_t, json&) {
    too_deep = too_deep || depth > kMaxDepth;
    return !too_deep;
  };
  try {
    json object = json::parse(text.begin(), text.end(), check_depth);
    if (too_deep) {
      return error(Code::kInvalidArgument,
                   fmt::format("{} is nested more than {} levels deep", source, kMaxDepth));
    }
    if (!object.is_object()) {
      return error(Code::kInvalidArgument, source + " is not a JSON object");
    }
    return object;
  } catch (const json::exception& e) {
    return error(Code::kInvalidArgument, fmt::format("{} is not valid JSON: {}", source, e.what()));
  }
}

Status apply_override(json& root, const std::string& key, const std::string& text) {
  json value = json::parse(text, nullptr, false);
  if (value.is_discarded()) value = text;  // topk_method=greedy needs no quotes
  json* object = &root;
  size_t begin = 0;
  for (;;) {
    const size_t dot = key.find('.', begin);
    const std::string part =
        key.substr(begin, dot == std::string::npos ? std::string::npos : dot - begin);
    if (part.empty()) {
      return {Code::kInvalidArgument, fmt::format("config override \"{}\" has no key", key)};
    }
    json& child = (*object)[part];
    if (dot == std::string::npos) {
      child = std::move(value);
      return {};
    }
    if (child.is_null()) child = json::object();
    if (!child.is_object()) {
      return {Code::kInvalidArgument,
              fmt::format("config override \"{}\": {} is not an object", key, key.substr(0, dot))};
    }
    object = &child;
    begin = dot + 1;
  }
}

Result<const Member*> find_member(const json& root, const std::string& source) {
  const auto type = root.find("model_type");
  if (type == root.end() || !type->is_string()) {
    return error(Code::kInvalidArgument,
                 source + " has no model_type string, so its architecture is unknown");
  }
  const std::string model_type = type->get<std::string>();
  std::string known;
  for (const Member& member : kMembers) {
    if (model_type == member.model_type) return &member;
    known += (known.empty() ? "" : ", ") + std::string(member.model_type);
  }
  const bool later =
      std::find(std::begin(kLater), std::end(kLater), model_type) != std::end(kLater);
  return error(
      Code::kUnsupported,
      fmt::format("{} has model_type {}, which this version of fathom does not {}; known: {}",
                  source, config::shown(*type), later ? "run yet (it comes later)" : "know",
                  known));
}

void check_architecture(config::ConfigReader& reader, const Member& member) {
  const json* list = reader.find("architectures");
  if (list == nullptr) return;
  const bool good = list->is_array() && list->size() == 1 && (*list)[0] == member.architecture;
  if (good) return;
  reader.problem(fmt::format("architectures is {}, but model_type \"{}\" goes with [\"{}\"]",
                             config::shown(*list), member.model_type, member.architecture));
}

// An override that changes nothing is a mistake, not a wish.
void check_overrides(config::ConfigReader& reader, const ConfigOverrides& overrides) {
  const std::vector<std::string> unknown = reader.unknown_keys();
  for (const auto& [key, value] : overrides) {
    const std::string top = key.substr(0, key.find('.'));
    if (std::find(unknown.begin(), unknown.end(), top) != unknown.end()) {
      reader.problem(
          fmt::format("config override \"{}\" names a key that has no meaning for this "
                      "architecture",
                      key));
    }
  }
}

Result<ModelConfig> build(const json& root, const std::string& source,
                          const ConfigOverrides& overrides) {
  FATHOM_ASSIGN(const Member* member, find_member(root, source));
  config::Findings findings;
  config::ConfigReader reader(root, "", &findings);
  ModelConfig result;
  result.architecture = member->architecture;
  result.model_type = member->model_type;
  check_architecture(reader, *member);
  member->build(reader, result);
  check_overrides(reader, overrides);
  const std::vector<std::string>& problems = findings.problems;
  if (!problems.empty()) {
    std::string message = fmt::format("{} cannot be used ({} problem{}):", source, problems.size(),
                                      problems.size() == 1 ? "" : "s");
    for (const std::string& problem : problems) message += "\n  " + problem;
    return error(Code::kInvalidArgument, std::move(message));
  }
  const std::string canonical = root.dump(-1, ' ', true);
  result.source_hash = XXH3_64bits(canonical.data(), canonical.size());
  reader.ignore_unknown_keys();
  result.ignored_keys = std::move(findings.ignored);
  return result;
}

}  // namespace

Result<ModelConfig> parse_config(std::string_view text, const std::string& source,
                                 const ConfigOverrides& overrides) {
  FATHOM_ASSIGN(json root, parse_json(text, source));
  try {
    for (const auto& [key, value] : overrides) FATHOM_TRY(apply_override(root, key, value));
    return build(root, source, overrides);
  } catch (const json::exception& e) {
    return error(Code::kInternal, fmt::format("reading {} failed: {}", source, e.what()));
  }
}

Result<ModelConfig> read_config(const std::filesystem::path& model_dir,
                                const ConfigOverrides& overrides) {
  const std::filesystem::path path = model_dir / "config.json";
  std::error_code ec;
  if (!std::filesystem::is_regular_file(path, ec)) {
    return error(Code::kNotFound,
                 fmt::format("{} has no config.json; give the folder of a Hugging Face model",
                             model_dir.string()));
  }
  FATHOM_ASSIGN(std::string text, read_text_file(path, kMaxConfigBytes));
  return parse_config(text, path.string(), overrides);
}

}  // namespace fathom
