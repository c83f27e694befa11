// The endpoints: the form of each body and how it becomes a job or an answer.
#pragma once

#include <string>
#include <vector>

#include "http/api/generation.h"
#include "http/api/schema.h"
#include "http/api/service.h"
#include "http/exchange.h"

namespace fathom::api {

// Forms of the bodies.
const Schema& chat_body();
const Schema& completion_body();
const Schema& tokenize_body();
const Schema& detokenize_body();

// Checked bodies to jobs. The endpoint, ignored fields and body are filled in by the caller.
ApiResult<Job> make_chat_job(const Service& service, const HttpRequest& request, const Json& body);
ApiResult<Job> make_completion_job(const Service& service, const HttpRequest& request,
                                   const Json& body);

// Checked bodies to answers.
ApiResult<Json> tokenize(const Service& service, const Json& body);
ApiResult<Json> detokenize(const Service& service, const Json& body);
Json model_list(const Service& service);
Json model_entry(const Service& service, const std::string& name);

// The body of a request: JSON, an object of the schema's form.
ApiResult<Json> read_body(const HttpRequest& request, const Schema& schema,
                          std::vector<std::string>* ignored);
// The model that the body names, or the default; 404 if it is not served.
ApiResult<std::string> model_of(const Service& service, const Json& body);

}  // namespace fathom::api
