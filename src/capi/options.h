// The JSON objects of the C interface: options, sampling parameters, descriptions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/status.h"
#include "engine/engine.h"
#include "types/sampling_params.h"

namespace fathom::capi {

using Json = nlohmann::ordered_json;

// NULL or "" give the defaults. Every problem names the key; unknown keys are refused with the list
// of known ones.
Status parse_engine_options(const char* json, EngineOptions* options);
Status parse_model_options(const char* json, ModelOptions* options);
// What sampling_json says goes to the request's sampling parameters and to its fields beside them.
// `response_format` receives the text of that key, if it is there.
Status parse_sampling(const char* json, Request* request, std::string* response_format);

Json sampling_json(const SamplingParams& sampling);
// As text; bytes that are not UTF-8 become U+FFFD.
std::string dump(const Json& json);

}  // namespace fathom::capi
