// What all endpoints do first: read the body, find the model.
#include <fmt/format.h>

#include "http/api/endpoints.h"

namespace fathom::api {

ApiResult<Json> read_body(const HttpRequest& request, const Schema& schema,
                          std::vector<std::string>* ignored) {
  Result<Json> body = parse_json(request.body);
  if (!body) {
    ApiError error = from_status(body.error());
    error.code = "invalid_json";
    return fail(std::move(error));
  }
  FATHOM_API_TRY(schema.check(*body, "", ignored));
  return std::move(*body);
}

ApiResult<std::string> model_of(const Service& service, const Json& body) {
  const auto found = body.find("model");
  if (found == body.end() || found->is_null()) return service.model_names().front();
  const std::string& name = found->get_ref<const std::string&>();
  if (service.serves(name)) return name;
  std::string served;
  for (const std::string& other : service.model_names()) {
    served += (served.empty() ? "" : ", ") + other;
  }
  return fail(ApiError{
      404, fmt::format("The model {} is not served here; this server has {}.", dump(name), served),
      "model", "model_not_found"});
}

Json model_entry(const Service& service, const std::string& name) {
  return {{"id", name},
          {"object", "model"},
          {"created", service.started()},
          {"owned_by", "fathom"},
          {"root", service.engine().name()},
          {"parent", nullptr},
          {"max_model_len", service.engine().max_model_len()}};
}

Json model_list(const Service& service) {
  Json data = Json::array();
  for (const std::string& name : service.model_names()) {
    data.push_back(model_entry(service, name));
  }
  return {{"object", "list"}, {"data", std::move(data)}};
}

}  // namespace fathom::api
