// Answers the questions of load balancers and monitoring, and serves the page.
#include "http/builtin_routes.h"

#include <nlohmann/json.hpp>

#include "http/page/page.h"

namespace fathom {
namespace {

HttpResponse json_response(int status, const nlohmann::ordered_json& json) {
  HttpResponse response;
  response.status = status;
  response.body = json.dump();
  return response;
}

HttpResponse readiness(ServerPhase phase) {
  switch (phase) {
    case ServerPhase::kReady:
      return json_response(200, {{"status", "ready"}});
    case ServerPhase::kLoading:
      return json_response(503, {{"status", "loading"}});
    case ServerPhase::kDraining:
      break;
  }
  return json_response(503, {{"status", "draining"}});
}

Route open_route(const std::string& path, Handler handler) {
  Route route;
  route.method = "GET";
  route.path = path;
  route.handler = std::move(handler);
  route.needs_key = false;
  return route;
}

}  // namespace

std::vector<Route> builtin_routes(Gate& gate, Metrics& metrics, const std::string& version) {
  using Ptr = std::shared_ptr<Exchange>;
  std::vector<Route> routes = page_routes();
  routes.insert(
      routes.end(),
      {
          open_route("/health",
                     [](const Ptr& exchange) {
                       exchange->respond(json_response(200, {{"status", "ok"}}));
                     }),
          open_route("/ready",
                     [&gate](const Ptr& exchange) { exchange->respond(readiness(gate.phase())); }),
          open_route("/metrics",
                     [&metrics](const Ptr& exchange) {
                       HttpResponse response;
                       response.content_type = "text/plain; version=0.0.4; charset=utf-8";
                       response.body = metrics.text();
                       exchange->respond(std::move(response));
                     }),
          open_route("/version",
                     [version](const Ptr& exchange) {
                       exchange->respond(json_response(200, {{"version", version}}));
                     }),
      });
  return routes;
}

}  // namespace fathom
