// The llama architecture: DeepSeek-LLM, DeepSeek-Coder (linear RoPE scaling), R1-Distill-Llama.
#include "model/config/builders.h"
#include "model/config/fields.h"

namespace fathom::config {

void build_llama(ConfigReader& reader, ModelConfig& config) {
  read_common(reader, config);
  AttentionSpec attention = read_gqa(reader, config, kRopeLinear | kRopeLlama3);
  attention.qkv_bias = attention.o_bias = reader.flag_or("attention_bias", false);
  reader.require_default("mlp_bias", false, "no member of the family has such biases");
  refuse_quantization(reader);
  fill_layers(reader, config, attention, read_dense_ffn(reader), FfnSpec{});
}

}  // namespace fathom::config
