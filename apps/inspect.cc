// `fathom inspect`: what a model folder holds and what running it takes, without loading weights.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "apps/commands.h"
#include "apps/console.h"
#include "apps/options.h"
#include "core/file.h"
#include "model/config/config.h"
#include "model/describe.h"
#include "model/load.h"
#include "weights/checkpoint.h"
#include "weights/report.h"
#include "weights/resolve.h"

namespace fathom::apps {
namespace {

using Json = nlohmann::ordered_json;

struct InspectOptions {
  std::string model;
  std::vector<std::string> config_overrides;
  int64_t context = 0;
  bool tensors = false;
  bool json = false;
};

constexpr const char* kTextFiles[] = {"tokenizer.json", "tokenizer_config.json",
                                      "generation_config.json"};

const char* rope_name(RopeScaling scaling) {
  switch (scaling) {
    case RopeScaling::kNone:
      return "none";
    case RopeScaling::kLinear:
      return "linear";
    case RopeScaling::kYarn:
      return "yarn";
    case RopeScaling::kLlama3:
      return "llama3";
  }
  return "";
}

const char* topk_name(TopkMethod method) {
  switch (method) {
    case TopkMethod::kGreedy:
      return "greedy";
    case TopkMethod::kGroupLimitedGreedy:
      return "group_limited_greedy";
    case TopkMethod::kNoauxTc:
      return "noaux_tc";
  }
  return "";
}

Json attention_json(const AttentionSpec& a) {
  Json json;
  if (a.kind == AttentionKind::kMla) {
    json = {{"kind", "MLA"},
            {"num_attention_heads", a.num_attention_heads},
            {"q_lora_rank", a.q_lora_rank > 0 ? Json(a.q_lora_rank) : Json(nullptr)},
            {"kv_lora_rank", a.kv_lora_rank},
            {"qk_nope_head_dim", a.qk_nope_head_dim},
            {"qk_rope_head_dim", a.qk_rope_head_dim},
            {"v_head_dim", a.v_head_dim}};
  } else {
    json = {{"kind", a.num_key_value_heads == a.num_attention_heads ? "MHA" : "GQA"},
            {"num_attention_heads", a.num_attention_heads},
            {"num_key_value_heads", a.num_key_value_heads},
            {"head_dim", a.head_dim}};
  }
  json["softmax_scale"] = a.softmax_scale;
  json["rope"] = {{"dim", a.rope.dim},
                  {"theta", a.rope.theta},
                  {"scaling", rope_name(a.rope.scaling)},
                  {"factor", a.rope.factor},
                  {"interleaved", a.rope.interleaved}};
  return json;
}

Json ffn_json(const FfnSpec& f) {
  if (f.kind == FfnKind::kDense)
    return {{"kind", "dense"}, {"intermediate_size", f.intermediate_size}};
  return {{"kind", "MoE"},
          {"moe_intermediate_size", f.intermediate_size},
          {"n_routed_experts", f.n_routed_experts},
          {"n_shared_experts", f.n_shared_experts},
          {"num_experts_per_tok", f.num_experts_per_tok},
          {"topk_method", topk_name(f.router.topk_method)},
          {"scoring_func", f.router.scoring_func == ScoringFunc::kSigmoid ? "sigmoid" : "softmax"},
          {"n_group", f.router.n_group},
          {"topk_group", f.router.topk_group},
          {"norm_topk_prob", f.router.norm_topk_prob},
          {"routed_scaling_factor", f.router.routed_scaling_factor}};
}

Json config_json(const ModelConfig& config) {
  const auto count = [&](FfnKind kind) {
    return std::count_if(config.layers.begin(), config.layers.end(),
                         [&](const LayerSpec& layer) { return layer.ffn.kind == kind; });
  };
  Json json = {{"architecture", config.architecture},
               {"model_type", config.model_type},
               {"hidden_size", config.hidden_size},
               {"vocab_size", config.vocab_size},
               {"max_position_embeddings", config.max_position_embeddings},
               {"num_hidden_layers", config.num_hidden_layers()},
               {"dense_layers", count(FfnKind::kDense)},
               {"moe_layers", count(FfnKind::kMoe)},
               {"num_nextn_predict_layers", config.num_nextn_predict_layers},
               {"tie_word_embeddings", config.tie_word_embeddings},
               {"torch_dtype", dtype_name(config.torch_dtype)},
               {"fp8", config.fp8.enabled},
               {"attention", attention_json(config.layers[0].attention)},
               {"ffn", Json::array()}};
  for (const FfnKind kind : {FfnKind::kDense, FfnKind::kMoe}) {
    const auto found = std::find_if(config.layers.begin(), config.layers.end(),
                                    [&](const LayerSpec& layer) { return layer.ffn.kind == kind; });
    if (found != config.layers.end()) json["ffn"].push_back(ffn_json(found->ffn));
  }
  json["ignored_keys"] = config.ignored_keys;
  return json;
}

// Headers only: names, types and sizes, and whether they fit the config.
Json checkpoint_json(const std::filesystem::path& folder, const ModelConfig& config,
                     const InspectOptions& options) {
  const Result<Checkpoint> checkpoint = Checkpoint::open(folder);
  if (!checkpoint) {
    const bool absent = checkpoint.error().code() == Code::kNotFound;
    return {{"status", absent ? "missing" : "damaged"}, {"problem", checkpoint.error().message()}};
  }
  std::map<std::string, std::pair<int64_t, uint64_t>> mix;
  for (const TensorInfo& tensor : checkpoint->tensors()) {
    auto& [count, bytes] = mix[dtype_name(tensor.dtype)];
    ++count, bytes += tensor.bytes;
  }
  Json json = {{"status", "complete"},
               {"format", checkpoint->format()},
               {"files", checkpoint->file_count()},
               {"tensors", checkpoint->tensors().size()},
               {"bytes", checkpoint->total_bytes()},
               {"dtypes", Json::object()}};
  for (const auto& [name, entry] : mix) {
    json["dtypes"][name] = {{"tensors", entry.first}, {"bytes", entry.second}};
  }
  if (const Status fits = check_weights(*checkpoint, config); !fits.ok()) {
    json["status"] = "does not fit config.json";
    json["problem"] = fits.message();
  }
  if (options.tensors) {
    json["tensor_table"] = Json::array();
    for (const TensorInfo& tensor : checkpoint->tensors()) {
      json["tensor_table"].push_back({{"name", tensor.name},
                                      {"dtype", dtype_name(tensor.dtype)},
                                      {"shape", tensor.shape},
                                      {"bytes", tensor.bytes},
                                      {"file", checkpoint->file_name(tensor.file)}});
    }
  }
  return json;
}

// Memory for one sequence of `context` tokens.
Json memory_json(const ModelConfig& config, uint64_t weight_bytes, int64_t context) {
  const uint64_t f32 = kv_layout_of(config, DType::kF32).bytes_per_token();
  const uint64_t bf16 = kv_layout_of(config, DType::kBF16).bytes_per_token();
  constexpr uint64_t kWorkspace = uint64_t{300} << 20;  // activations, logits, tokenizer, code
  const uint64_t needed = weight_bytes + f32 * static_cast<uint64_t>(context) + kWorkspace;
  const uint64_t available = available_memory_bytes();
  const uint64_t fixed = weight_bytes + kWorkspace;
  const uint64_t room = available > fixed ? available - fixed : 0;
  return {{"kv_bytes_per_token", {{"f32", f32}, {"bf16", bf16}}},
          {"context", context},
          {"weight_bytes", weight_bytes},
          {"kv_bytes", {{"f32", f32 * uint64_t(context)}, {"bf16", bf16 * uint64_t(context)}}},
          {"workspace_bytes", kWorkspace},
          {"needed_bytes", needed},
          {"available_bytes", available},
          {"fits", needed <= available},
          {"longest_context_here",
           std::min<uint64_t>(room / f32, uint64_t(config.max_position_embeddings))}};
}

Json files_json(const std::filesystem::path& folder, const Json& checkpoint) {
  Json missing = Json::array();
  std::error_code ignored;
  for (const char* file : kTextFiles) {
    if (!std::filesystem::exists(folder / file, ignored)) missing.push_back(file);
  }
  if (checkpoint["status"] == "missing") missing.push_back("weights");
  return missing;
}

std::string grouped(uint64_t number) {
  std::string digits = std::to_string(number);
  for (int at = int(digits.size()) - 3; at > 0; at -= 3) digits.insert(size_t(at), ",");
  return digits;
}

// A JSON object on one line, as "key value, key value".
std::string flat(const Json& object) {
  std::string text;
  for (const auto& [key, value] : object.items()) {
    if (!text.empty()) text += ", ";
    const std::string shown = value.is_string()   ? value.get<std::string>()
                              : value.is_object() ? "(" + flat(value) + ")"
                                                  : value.dump();
    text += key == "kind" ? shown : key + " " + shown;
  }
  return text;
}

std::string flat_list(const Json& strings) {
  std::string text;
  for (const Json& item : strings) text += (text.empty() ? "" : ", ") + item.get<std::string>();
  return text;
}

void print_checkpoint(const Json& checkpoint) {
  if (!checkpoint.contains("format")) {
    print(fmt::format("weights     {}\n", checkpoint["status"].get<std::string>()));
    print(checkpoint["problem"].get<std::string>() + "\n");
    return;
  }
  print(fmt::format("weights     {}, {} files, {} tensors, {}\n",
                    checkpoint["format"].get<std::string>(), checkpoint["files"].get<int>(),
                    checkpoint["tensors"].get<size_t>(),
                    human_bytes(checkpoint["bytes"].get<uint64_t>())));
  for (const auto& [dtype, entry] : checkpoint["dtypes"].items()) {
    print(fmt::format("            {}: {} tensors, {}\n", dtype, entry["tensors"].get<int64_t>(),
                      human_bytes(entry["bytes"].get<uint64_t>())));
  }
  if (checkpoint.contains("problem")) {
    print("check       FAILED: " + checkpoint["problem"].get<std::string>() + "\n");
  } else {
    print("check       every tensor that config.json asks for is there, and nothing else\n");
  }
}

void print_tensors(const Json& rows) {
  Table table({{"tensor", Table::Align::kLeft},
               {"dtype", Table::Align::kLeft},
               {"shape", Table::Align::kLeft},
               {"size", Table::Align::kRight},
               {"file", Table::Align::kLeft}});
  for (const Json& row : rows) {
    table.add({row["name"].get<std::string>(), row["dtype"].get<std::string>(), row["shape"].dump(),
               human_bytes(row["bytes"].get<uint64_t>()), row["file"].get<std::string>()});
  }
  print("\n" + table.text());
}

void print_report(const Json& report) {
  const Json& config = report["config"];
  const Json& parameters = report["parameters"];
  const Json& memory = report["memory"];
  print(fmt::format("model       {}\n", report["folder"].get<std::string>()));
  print(fmt::format(
      "kind        {} ({}), {} layers ({} dense, {} MoE), hidden_size {}, vocab_size "
      "{}, context {}\n",
      config["architecture"].get<std::string>(), config["model_type"].get<std::string>(),
      config["num_hidden_layers"].get<int>(), config["dense_layers"].get<int>(),
      config["moe_layers"].get<int>(), config["hidden_size"].get<int64_t>(),
      config["vocab_size"].get<int64_t>(), config["max_position_embeddings"].get<int64_t>()));
  print("attention   " + flat(config["attention"]) + "\n");
  for (const Json& ffn : config["ffn"]) print("ffn         " + flat(ffn) + "\n");
  print(fmt::format("stored as   {}{}{}\n", config["torch_dtype"].get<std::string>(),
                    config["fp8"].get<bool>() ? " and F8_E4M3 with block scales" : "",
                    config["tie_word_embeddings"].get<bool>() ? ", tied embeddings" : ""));
  print(fmt::format("parameters  {} total ({}), {} active for a token\n",
                    human_count(parameters["total"].get<double>()),
                    grouped(parameters["total"].get<uint64_t>()),
                    human_count(parameters["active"].get<double>())));
  if (parameters["mtp"].get<uint64_t>() > 0) {
    print(fmt::format("            and {} in {} MTP layers (kept for later)\n",
                      human_count(parameters["mtp"].get<double>()),
                      config["num_nextn_predict_layers"].get<int>()));
  }
  if (!config["ignored_keys"].empty()) {
    print("ignored     " + flat_list(config["ignored_keys"]) + " (keys without meaning here)\n");
  }
  print_checkpoint(report["checkpoint"]);
  print(fmt::format("KV cache    {} bytes a token in f32, {} in bf16\n",
                    grouped(memory["kv_bytes_per_token"]["f32"].get<uint64_t>()),
                    grouped(memory["kv_bytes_per_token"]["bf16"].get<uint64_t>())));
  print(fmt::format(
      "memory      for one sequence of {} tokens: {} weights + {} KV (f32) + {} workspace = {}; "
      "{} are free: {}\n",
      memory["context"].get<int64_t>(), human_bytes(memory["weight_bytes"].get<uint64_t>()),
      human_bytes(memory["kv_bytes"]["f32"].get<uint64_t>()),
      human_bytes(memory["workspace_bytes"].get<uint64_t>()),
      human_bytes(memory["needed_bytes"].get<uint64_t>()),
      human_bytes(memory["available_bytes"].get<uint64_t>()),
      memory["fits"].get<bool>() ? "fits" : "does NOT fit"));
  if (!memory["fits"].get<bool>()) {
    print(fmt::format("            longest context that fits here: {}\n",
                      memory["longest_context_here"].get<uint64_t>()));
  }
  if (!report["missing"].empty()) print("missing     " + flat_list(report["missing"]) + "\n");
  if (report["checkpoint"].contains("tensor_table")) {
    print_tensors(report["checkpoint"]["tensor_table"]);
  }
}

int inspect(const InspectOptions& options) {
  const auto folder = resolve_model(options.model);
  if (!folder) return fail(folder.error());
  ModelFlags flags;
  flags.config_overrides = options.config_overrides;
  const auto config = read_config(*folder, model_options(flags).config_overrides);
  if (!config) return fail(config.error());
  const ParameterCounts counts = count_parameters(*config);
  Json report = {
      {"model", options.model},
      {"folder", folder->string()},
      {"config", config_json(*config)},
      {"parameters", {{"total", counts.total}, {"active", counts.active}, {"mtp", counts.mtp}}},
      {"checkpoint", checkpoint_json(*folder, *config, options)}};
  const int64_t context = options.context > 0 ? options.context : config->max_position_embeddings;
  report["memory"] = memory_json(*config, weight_bytes_of(*config), context);
  report["missing"] = files_json(*folder, report["checkpoint"]);
  options.json ? print_json(report) : print_report(report);
  // Weights that are absent are a finding, weights that are wrong are a failure.
  const std::string status = report["checkpoint"]["status"];
  return status == "complete" || status == "missing" ? kExitOk : kExitFailure;
}

}  // namespace

void add_inspect(CLI::App& app, Action& action) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* command = app.add_subcommand(
      "inspect", "Show what a model is, whether its files are complete, and what memory it takes");
  command
      ->add_option("MODEL", options->model,
                   "Model folder (config.json is enough), path in the Hugging Face cache, or "
                   "org/name[@revision]")
      ->required();
  command->add_flag("--tensors", options->tensors, "List every tensor");
  command
      ->add_option("--context", options->context,
                   "Tokens of context to plan memory for; 0 = the model's full context")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->capture_default_str();
  add_config_override(*command, options->config_overrides);
  command->add_flag("--json", options->json, "Print one JSON object");
  command->footer(
      "Only headers are read: this is quick on models of any size. Exit code 1 if weights are\n"
      "there but damaged or not those that config.json asks for.\n"
      "Examples:\n"
      "  fathom inspect deepseek-ai/DeepSeek-V3 --context 8192\n"
      "  fathom inspect ./folder-with-only-config.json\n"
      "  fathom inspect MODEL --tensors | grep experts.0\n"
      "  fathom inspect MODEL --json | jq .parameters");
  command->callback([options, &action] { action = [options] { return inspect(*options); }; });
}

}  // namespace fathom::apps
