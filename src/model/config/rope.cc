// Rotary embedding keys: rope_theta with rope_scaling, or transformers 5's rope_parameters.
#include <fmt/format.h>

#include "model/config/fields.h"

namespace fathom::config {
namespace {

constexpr NumberRange kThetaRange{1.0, 1e12};
constexpr NumberRange kFactorRange{1.0, 1e6};

struct RopeSource {
  const nlohmann::json* object = nullptr;
  const char* name = "";
};

// transformers 5 writes rope_parameters, everything before it rope_scaling. Both, and different:
// nobody can say which one the weights were trained with.
RopeSource find_rope_object(ConfigReader& reader) {
  const nlohmann::json* scaling = reader.object("rope_scaling");
  const nlohmann::json* parameters = reader.object("rope_parameters");
  if (parameters == nullptr) return {scaling, "rope_scaling."};
  if (scaling != nullptr && *scaling != *parameters) {
    reader.problem("rope_scaling and rope_parameters are both present and differ; keep one");
  }
  return {parameters, "rope_parameters."};
}

RopeScaling read_kind(ConfigReader& rope, unsigned kinds) {
  const char* key = rope.has("rope_type") ? "rope_type" : "type";
  if (rope.has("rope_type") && rope.has("type") && *rope.find("rope_type") != *rope.find("type")) {
    rope.problem(fmt::format("{} is {} but {} is {}; keep one", rope.name("rope_type"),
                             shown(*rope.find("rope_type")), rope.name("type"),
                             shown(*rope.find("type"))));
  }
  const std::string kind = rope.text_or(key, rope.has("factor") ? "" : "default");
  if (kind == "default") return RopeScaling::kNone;
  if (kind == "linear" && (kinds & kRopeLinear)) return RopeScaling::kLinear;
  if (kind == "yarn" && (kinds & kRopeYarn)) return RopeScaling::kYarn;
  if (kind == "llama3" && (kinds & kRopeLlama3)) return RopeScaling::kLlama3;
  std::string known = "\"default\"";
  if (kinds & kRopeLinear) known += ", \"linear\"";
  if (kinds & kRopeYarn) known += ", \"yarn\"";
  if (kinds & kRopeLlama3) known += ", \"llama3\"";
  rope.problem(fmt::format("{} is \"{}\", which is not supported for this architecture; known: {}",
                           rope.name(key), kind, known));
  return RopeScaling::kNone;
}

// The defaults of absent mscale keys are those of DeepSeek's published modeling code: 1 and 0.
void read_yarn(ConfigReader& rope, RopeSpec& spec) {
  spec.original_max_position_embeddings =
      rope.integer("original_max_position_embeddings", {1, int64_t{1} << 24});
  spec.beta_fast = rope.number_or("beta_fast", 32, {1e-3, 1e6});
  spec.beta_slow = rope.number_or("beta_slow", 1, {1e-3, 1e6});
  spec.mscale = rope.number_or("mscale", 1, {0, 1e3});
  spec.mscale_all_dim = rope.number_or("mscale_all_dim", 0, {0, 1e3});
  if (spec.beta_fast < spec.beta_slow) {
    rope.problem(fmt::format("{} {} is below {} {}", rope.name("beta_fast"), spec.beta_fast,
                             rope.name("beta_slow"), spec.beta_slow));
  }
  rope.require_default("attention_factor", nullptr,
                       "DeepSeek's models state mscale and mscale_all_dim instead");
  rope.require_default("truncate", true, "DeepSeek's YaRN rounds its correction range");
}

void read_llama3(ConfigReader& rope, RopeSpec& spec) {
  spec.original_max_position_embeddings =
      rope.integer("original_max_position_embeddings", {1, int64_t{1} << 24});
  spec.low_freq_factor = rope.number("low_freq_factor", {1e-3, 1e6});
  spec.high_freq_factor = rope.number("high_freq_factor", {1e-3, 1e6});
  if (rope.ok() && spec.high_freq_factor <= spec.low_freq_factor) {
    rope.problem(fmt::format("{} must be above {}", rope.name("high_freq_factor"),
                             rope.name("low_freq_factor")));
  }
}

}  // namespace

RopeSpec read_rope(ConfigReader& reader, int dim, unsigned kinds) {
  RopeSpec spec;
  spec.dim = dim;
  spec.theta = reader.number_or("rope_theta", 10000, kThetaRange);
  reader.require_default("partial_rotary_factor", 1.0, "the family rotates whole heads");
  const RopeSource source = find_rope_object(reader);
  if (source.object == nullptr) return spec;

  ConfigReader rope(*source.object, source.name, reader.findings());
  if (rope.has("rope_theta")) {
    const double theta = rope.number_or("rope_theta", spec.theta, kThetaRange);
    if (reader.has("rope_theta") && theta != spec.theta) {
      rope.problem(fmt::format("rope_theta is {} but {} is {}; keep one", spec.theta,
                               rope.name("rope_theta"), theta));
    }
    spec.theta = theta;
  }
  rope.require_default("partial_rotary_factor", 1.0, "the family rotates whole heads");
  spec.scaling = read_kind(rope, kinds);
  if (spec.scaling != RopeScaling::kNone) spec.factor = rope.number("factor", kFactorRange);
  if (spec.scaling == RopeScaling::kYarn) read_yarn(rope, spec);
  if (spec.scaling == RopeScaling::kLlama3) read_llama3(rope, spec);
  if (spec.scaling == RopeScaling::kYarn && spec.theta <= 1) {
    reader.problem("rope_theta must be above 1 for YaRN");
  }
  rope.ignore_unknown_keys();
  return spec;
}

}  // namespace fathom::config
