// The qwen2 architecture of R1-Distill-Qwen: llama with biases on q, k and v.
#include "model/config/builders.h"
#include "model/config/fields.h"

namespace fathom::config {

void build_qwen2(ConfigReader& reader, ModelConfig& config) {
  read_common(reader, config);
  AttentionSpec attention = read_gqa(reader, config, kRopeLinear);
  attention.qkv_bias = true;
  // The distills carry window sizes of their Qwen2.5 ancestors, switched off.
  reader.require_default("use_sliding_window", false, "the distills attend to the whole context");
  reader.require_default("use_mrope", false, "it belongs to vision models");
  reader.ignore({"sliding_window", "max_window_layers"});
  if (const nlohmann::json* types = reader.find("layer_types")) {
    for (const nlohmann::json& type : *types) {
      if (type != "full_attention") {
        reader.problem("layer_types holds " + shown(type) +
                       ", but only \"full_attention\" is supported");
        break;
      }
    }
  }
  refuse_quantization(reader);
  fill_layers(reader, config, attention, read_dense_ffn(reader), FfnSpec{});
}

}  // namespace fathom::config
