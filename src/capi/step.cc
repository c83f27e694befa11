// The step face: a model over plans and KV memory of the caller.
#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

#include "capi/boundary.h"
#include "capi/options.h"
#include "model/model.h"
#include "weights/resolve.h"

struct fathom_model {
  std::unique_ptr<fathom::Model> model;
  std::mutex mutex;  // one step at a time
  // Of the last step; reused so that steps of a steady size do not allocate.
  fathom::StepPlan plan;
  std::vector<fathom::KvMemory> kv;
};

namespace fathom::capi {

namespace {

constexpr size_t kPlanSize = sizeof(fathom_step_plan);  // of the first version
constexpr size_t kOutputSize = sizeof(fathom_step_output);
constexpr size_t kTableSize = sizeof(fathom_page_table);
constexpr size_t kMemorySize = sizeof(fathom_kv_memory);
constexpr size_t kGroupSize = sizeof(fathom_kv_group);

const char* growth_name(KvGrowth growth) {
  switch (growth) {
    case KvGrowth::kPerToken:
      return "per_token";
    case KvGrowth::kPerStride:
      return "per_stride";
    case KvGrowth::kWindow:
      return "window";
    case KvGrowth::kPerSequence:
      return "per_sequence";
  }
  return "unknown";
}

// Element `index` of a caller's array of structures, whose own size is the distance between them.
template <typename T>
const T* element(const T* array, size_t index) {
  return reinterpret_cast<const T*>(reinterpret_cast<const char*>(array) + index * array->size);
}

Status assign(const int32_t* values, size_t count, const char* name, std::vector<int32_t>* out) {
  if (values == nullptr && count > 0) {
    return bad_call(fmt::format("{} is NULL, but has {} elements.", name, count));
  }
  out->assign(values, values + count);
  return Status();
}

Status read_group(const fathom_step_plan& plan, size_t index, PageTable* table, KvMemory* memory) {
  fathom_page_table c_table;
  FATHOM_RETURN_IF_ERROR(
      read_struct(element(plan.page_tables, index), kTableSize, "fathom_page_table", &c_table));
  FATHOM_RETURN_IF_ERROR(assign(c_table.pages, c_table.page_count, "pages", &table->pages));
  FATHOM_RETURN_IF_ERROR(assign(c_table.begin, c_table.sequence_count + 1, "begin", &table->begin));
  fathom_kv_memory c_memory;
  FATHOM_RETURN_IF_ERROR(
      read_struct(element(plan.kv, index), kMemorySize, "fathom_kv_memory", &c_memory));
  memory->base = static_cast<std::byte*>(c_memory.base);
  memory->page_count = c_memory.page_count;
  memory->page_size = c_memory.page_size;
  memory->page_stride = c_memory.page_stride;
  return Status();
}

Status read_plan(const fathom_step_plan* given, size_t groups, StepPlan* plan,
                 std::vector<KvMemory>* kv) {
  fathom_step_plan c_plan;
  FATHOM_RETURN_IF_ERROR(read_struct(given, kPlanSize, "fathom_step_plan", &c_plan));
  FATHOM_RETURN_IF_ERROR(assign(c_plan.tokens, c_plan.row_count, "tokens", &plan->tokens));
  FATHOM_RETURN_IF_ERROR(assign(c_plan.positions, c_plan.row_count, "positions", &plan->positions));
  FATHOM_RETURN_IF_ERROR(assign(c_plan.sequences, c_plan.row_count, "sequences", &plan->sequences));
  FATHOM_RETURN_IF_ERROR(
      assign(c_plan.logit_rows, c_plan.logit_row_count, "logit_rows", &plan->logit_rows));
  if (c_plan.group_count != groups) {
    return bad_call(
        fmt::format("The plan has {} KV groups, the model {}.", c_plan.group_count, groups));
  }
  if (c_plan.page_tables == nullptr || c_plan.kv == nullptr) {
    return bad_call("page_tables or kv of the plan is NULL.");
  }
  plan->page_tables.resize(groups);
  kv->resize(groups);
  for (size_t i = 0; i < groups; ++i) {
    FATHOM_RETURN_IF_ERROR(read_group(c_plan, i, &plan->page_tables[i], &(*kv)[i]));
  }
  return Status();
}

Json model_info(const Model& model) {
  Json groups = Json::array();
  for (const KvGroup& group : model.kv_layout().groups) {
    groups.push_back({{"name", group.name},
                      {"growth", growth_name(group.growth)},
                      {"stride", group.stride},
                      {"window", group.window},
                      {"bytes_per_entry", group.bytes_per_entry}});
  }
  const ModelConfig& config = model.config();
  return {{"architecture", config.architecture},
          {"vocab_size", config.vocab_size},
          {"hidden_size", config.hidden_size},
          {"num_hidden_layers", config.num_hidden_layers()},
          {"max_position_embeddings", config.max_position_embeddings},
          {"weight_bytes", model.weight_bytes()},
          {"fingerprint", fmt::format("fp_{:016x}", model.fingerprint())},
          {"kv_groups", std::move(groups)},
          {"kv_bytes_per_token", model.kv_layout().bytes_per_token()}};
}

}  // namespace

}  // namespace fathom::capi

using namespace fathom;        // the definitions below are C's
using namespace fathom::capi;  // NOLINT(google-build-using-namespace)

extern "C" {

fathom_status fathom_model_open(const char* model, const char* options_json, fathom_model** handle,
                                fathom_buffer* error) {
  return guarded(error, [&]() -> Status {
    if (model == nullptr || handle == nullptr) return bad_call("model or handle is NULL.");
    ModelOptions options;
    FATHOM_RETURN_IF_ERROR(parse_model_options(options_json, &options));
    FATHOM_ASSIGN_OR_STATUS(const std::filesystem::path folder, resolve_model(model));
    auto opened = std::make_unique<fathom_model>();
    FATHOM_ASSIGN_OR_STATUS(opened->model, Model::load(folder, options));
    *handle = opened.release();
    return Status();
  });
}

void fathom_model_close(fathom_model* model) {
  quietly([&] { delete model; });
}

fathom_status fathom_model_info(const fathom_model* model, fathom_buffer* json,
                                fathom_buffer* error) {
  return guarded(error, [&]() -> Status {
    if (model == nullptr || json == nullptr) return bad_call("model or json is NULL.");
    set_buffer(json, dump(model_info(*model->model)));
    return Status();
  });
}

fathom_status fathom_model_kv_layout(const fathom_model* model, size_t index,
                                     fathom_kv_group* group, fathom_buffer* error) {
  return guarded(error, [&]() -> Status {
    if (model == nullptr) return bad_call("model is NULL.");
    const std::vector<KvGroup>& groups = model->model->kv_layout().groups;
    if (index >= groups.size()) {
      return Status(Code::kNotFound,
                    fmt::format("The model has {} KV groups; there is none with index {}.",
                                groups.size(), index));
    }
    fathom_kv_group c_group = {};
    c_group.size = sizeof c_group;
    std::strncpy(c_group.name, groups[index].name.c_str(), sizeof c_group.name - 1);
    c_group.growth = static_cast<int32_t>(groups[index].growth);
    c_group.stride = groups[index].stride;
    c_group.window = groups[index].window;
    c_group.bytes_per_entry = groups[index].bytes_per_entry;
    return write_struct(c_group, kGroupSize, "fathom_kv_group", group);
  });
}

fathom_status fathom_model_step(fathom_model* model, const fathom_step_plan* plan,
                                const fathom_step_output* output, fathom_buffer* error) {
  return guarded(error, [&]() -> Status {
    if (model == nullptr) return bad_call("model is NULL.");
    fathom_step_output c_output;
    FATHOM_RETURN_IF_ERROR(read_struct(output, kOutputSize, "fathom_step_output", &c_output));
    const std::lock_guard<std::mutex> lock(model->mutex);
    FATHOM_RETURN_IF_ERROR(
        read_plan(plan, model->model->kv_layout().groups.size(), &model->plan, &model->kv));
    StepOutput out;
    out.logits = c_output.logits;
    out.hidden = c_output.hidden;
    return model->model->step(model->plan, model->kv, out);
  });
}

}  // extern "C"
