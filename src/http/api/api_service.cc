// The list of routes and what each does with its exchange.
#include "http/api/api_service.h"

#include <exception>
#include <utility>

#include "http/api/anthropic.h"
#include "http/api/endpoints.h"
#include "http/api/generation.h"
#include "http/api/openapi.h"
#include "http/api/responses.h"
#include "http/api/service.h"

namespace fathom {

using api::ApiError;
using api::ApiResult;
using api::Dialect;
using api::Job;
using api::Json;
using api::Schema;
using api::Service;

struct ApiService::Impl : Service {
  using Service::Service;
};

namespace {

using ServicePtr = std::shared_ptr<const Service>;
using MakeJob = ApiResult<Job> (*)(const Service&, const HttpRequest&, const Json&);
using MakeAnswer = ApiResult<Json> (*)(const Service&, const Json&);

void respond(Exchange& exchange, const Json& body) {
  HttpResponse response;
  response.body = api::dump(body);
  exchange.respond(std::move(response));
}

ApiResult<Job> read_job(const Service& service, const HttpRequest& request, const Schema& schema,
                        MakeJob make) {
  std::vector<std::string> ignored;
  FATHOM_API_ASSIGN(Json body, api::read_body(request, schema, &ignored));
  FATHOM_API_ASSIGN(std::string model, api::model_of(service, body));
  FATHOM_API_ASSIGN(Job job, make(service, request, body));
  job.model = std::move(model);
  job.ignored_fields = std::move(ignored);
  job.body = std::move(body);
  return job;
}

// The last net under what the libraries throw: exceptions never leave this folder.
template <typename T, typename Make>
ApiResult<T> guarded(Make make) {
  try {
    return make();
  } catch (const std::exception& e) {
    return api::fail(
        ApiError{500, std::string("The request met a defect of the server: ") + e.what(), "", ""});
  }
}

Route generation_route(ServicePtr service, std::string path, Dialect dialect, const Schema& schema,
                       MakeJob make) {
  Route route;
  route.method = "POST";
  route.path = path;
  route.is_work = true;
  route.handler = [service = std::move(service), path, dialect, &schema,
                   make](std::shared_ptr<Exchange> exchange) {
    ApiResult<Job> job =
        guarded<Job>([&] { return read_job(*service, exchange->request(), schema, make); });
    if (!job) return exchange->respond(api::error_response(job.error(), dialect));
    job->endpoint = path;
    job->dialect = dialect;
    api::Generation::start(service, std::move(exchange), std::move(*job));
  };
  return route;
}

Route answer_route(ServicePtr service, std::string path, Dialect dialect, const Schema& schema,
                   MakeAnswer make) {
  Route route;
  route.method = "POST";
  route.path = std::move(path);
  route.is_work = true;
  route.handler = [service = std::move(service), dialect, &schema,
                   make](std::shared_ptr<Exchange> exchange) {
    ApiResult<Json> body = guarded<Json>([&]() -> ApiResult<Json> {
      FATHOM_API_ASSIGN(const Json given, api::read_body(exchange->request(), schema, nullptr));
      return make(*service, given);
    });
    if (!body) return exchange->respond(api::error_response(body.error(), dialect));
    respond(*exchange, *body);
  };
  return route;
}

Route get_route(std::string path, std::function<Json()> make) {
  Route route;
  route.method = "GET";
  route.path = std::move(path);
  route.handler = [make = std::move(make)](std::shared_ptr<Exchange> exchange) {
    respond(*exchange, make());
  };
  return route;
}

}  // namespace

ApiService::ApiService(Engine& engine, ApiOptions options, ServiceMetrics& metrics)
    : impl_(std::make_shared<const Impl>(engine, std::move(options), metrics)) {}
ApiService::~ApiService() = default;

std::vector<Route> ApiService::routes() const {
  const ServicePtr service = impl_;
  std::vector<Route> routes;
  routes.push_back(get_route("/v1/models", [service] { return api::model_list(*service); }));
  for (const std::string& name : service->model_names()) {
    routes.push_back(get_route("/v1/models/" + name,
                               [service, name] { return api::model_entry(*service, name); }));
  }
  routes.push_back(generation_route(service, "/v1/chat/completions", Dialect::kOpenAi,
                                    api::chat_body(), api::make_chat_job));
  routes.push_back(generation_route(service, "/v1/completions", Dialect::kOpenAi,
                                    api::completion_body(), api::make_completion_job));
  routes.push_back(generation_route(service, "/v1/responses", Dialect::kOpenAi,
                                    api::responses_body(), api::make_responses_job));
  routes.push_back(generation_route(service, "/v1/messages", Dialect::kAnthropic,
                                    api::messages_body(), api::make_messages_job));
  routes.push_back(answer_route(service, "/v1/messages/count_tokens", Dialect::kAnthropic,
                                api::count_tokens_body(), api::count_tokens));
  routes.push_back(
      answer_route(service, "/tokenize", Dialect::kOpenAi, api::tokenize_body(), api::tokenize));
  routes.push_back(answer_route(service, "/detokenize", Dialect::kOpenAi, api::detokenize_body(),
                                api::detokenize));
  Route description =
      get_route("/openapi.json", [service] { return api::openapi_document(*service); });
  description.needs_key = false;
  routes.push_back(std::move(description));
  return routes;
}

}  // namespace fathom
