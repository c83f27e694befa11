// tools and tool_choice to a plan.
#include "http/api/tools.h"

#include <fmt/format.h>

#include <set>

namespace fathom::api {

namespace {

ApiResult<void> check_names(const Json& tools) {
  std::set<std::string> names;
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string& name = tools[i]["function"]["name"].get_ref<const std::string&>();
    if (!names.insert(name).second) {
      const std::string path = fmt::format("tools[{}].function.name", i);
      return fail(path, fmt::format("{} is {}, which an earlier tool has already.", path,
                                    dump(tools[i]["function"]["name"])));
    }
  }
  return {};
}

bool has_tool(const Json& tools, const std::string& name) {
  for (const Json& tool : tools) {
    if (tool["function"]["name"] == name) return true;
  }
  return false;
}

}  // namespace

ApiResult<ToolPlan> plan_tools(const Json& tools, const Json& tool_choice) {
  ToolPlan plan;
  const bool given = tools.is_array() && !tools.empty();
  if (given) FATHOM_API_TRY(check_names(tools));
  if (given && tool_choice != "none") plan.tools = tools;
  if (tool_choice.is_null() || tool_choice == "none" || tool_choice == "auto") return plan;
  if (!given) {
    return fail("tool_choice", "tool_choice asks for a call, but there are no tools.");
  }
  if (tool_choice == "required") {
    plan.force = ToolPlan::Force::kAny;
    return plan;
  }
  plan.force = ToolPlan::Force::kOne;
  plan.name = tool_choice["function"]["name"];
  if (!has_tool(tools, plan.name)) {
    return fail("tool_choice.function.name",
                fmt::format("tool_choice names {}, which is not among the tools.",
                            dump(tool_choice["function"]["name"])));
  }
  return plan;
}

}  // namespace fathom::api
