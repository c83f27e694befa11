// What a request says about tools.
#pragma once

#include <string>

#include "http/api/api_error.h"
#include "http/api/json.h"

namespace fathom::api {

struct ToolPlan {
  enum class Force {
    kNone,  // the model decides
    kAny,   // one of the tools must be called
    kOne,   // the tool `name` must be called
  };
  Json tools = nullptr;  // what the template shows, OpenAI's form; null: none
  Force force = Force::kNone;
  std::string name;
};

// From `tools` and `tool_choice`, which have passed their schemas; both may be null.
ApiResult<ToolPlan> plan_tools(const Json& tools, const Json& tool_choice);

}  // namespace fathom::api
