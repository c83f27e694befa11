// `fathom serve`: the command line of the server.
#include "apps/serve.h"

#include <memory>

#include "apps/commands.h"
#include "apps/demo.h"

namespace fathom::apps {
namespace {

constexpr double kMaxSeconds = 1e6;

// A list option: each use adds one value, so that MODEL may follow it.
CLI::Option* one_each(CLI::Option* option) {
  return option->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void add_network_flags(CLI::App& command, ServeFlags& flags) {
  const auto group = "Network options";
  ServerOptions& server = flags.server;
  command.add_option("--host", server.host, "Address or name to listen on; 0.0.0.0 or :: = all")
      ->capture_default_str()
      ->group(group);
  command.add_option("--port", server.port, "Port to listen on; 0 = any free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str()
      ->group(group);
  command.add_option("--tls-cert", server.tls_cert_file, "Certificate chain (PEM): serve HTTPS")
      ->group(group);
  command.add_option("--tls-key", server.tls_key_file, "Private key of the certificate (PEM)")
      ->group(group);
  one_each(command.add_option("--cors-origin", server.cors_origins,
                              "Web origin whose pages may use the server, or *; repeatable"))
      ->group(group);
  command.add_option("--http-threads", server.threads, "Network threads")
      ->check(CLI::Range(1, 64))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--max-connections", server.max_connections,
                  "Open connections; more are answered with 503")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str()
      ->group(group);
  add_size_option(command, "--max-body-size", flags.max_body_bytes, "Longest request body")
      ->group(group);
  add_size_option(command, "--max-header-size", flags.max_header_bytes, "Longest request header")
      ->group(group);
}

void add_access_flags(CLI::App& command, ServeFlags& flags) {
  const auto group = "Access and operation options";
  one_each(command.add_option("--served-model-name", flags.served_names,
                              "Name of the model in the API (default: MODEL); repeatable"))
      ->group(group);
  one_each(command.add_option("--api-key", flags.api_keys,
                              "Key that clients must send; repeatable. Other users of the machine "
                              "see command lines: prefer a file"))
      ->group(group);
  command
      .add_option("--api-key-file", flags.api_key_file,
                  "File of keys, one a line, or JSON with limits; read again on SIGHUP")
      ->group(group);
  command
      .add_option("--drain-timeout", flags.drain_timeout,
                  "Seconds that running answers get after SIGTERM or Ctrl-C")
      ->check(CLI::Range(0.0, kMaxSeconds))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--request-timeout", flags.request_timeout,
                  "Seconds from submit to the last token of a request; 0 = no limit")
      ->check(CLI::Range(0.0, kMaxSeconds))
      ->capture_default_str()
      ->group(group);
  command
      .add_option(
          "--request-log", flags.request_log,
          "Append every answered request, with its prompt and answer, to this file; `fathom "
          "replay` checks that the same bytes come again")
      ->group(group);
  command.add_option("--log-format", flags.log_format, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str()
      ->group(group);
}

void add_batch_flags(CLI::App& command, ServeFlags& flags) {
  const auto group = "Engine options";
  command.add_option("--max-num-seqs", flags.max_num_seqs, "Sequences that run at once")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--max-num-batched-tokens", flags.max_num_batched_tokens,
                  "Rows of one step: prompt chunks and single tokens together")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--max-queued-requests", flags.max_queued_requests,
                  "Requests that may wait; more are answered with 429")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str()
      ->group(group);
  command
      .add_flag("--enable-prefix-caching,!--no-enable-prefix-caching", flags.prefix_caching,
                "Compute equal beginnings of prompts once (default: on). No effect on bits")
      ->group(group);
  command
      .add_option("--dtype", flags.dtype,
                  "auto: weights as stored, sums in float32. float32 and bfloat16 are accepted "
                  "for models that are stored so")
      ->check(CLI::IsMember({"auto", "float32", "bfloat16", "float", "half", "float16"}))
      ->capture_default_str()
      ->group(group);
  add_seed_option(command, flags.seed,
                  "Seed of requests that give none, so that equal requests get equal answers; "
                  "without it one is drawn for each")
      ->group(group);
  add_template_kwargs(command, flags.template_kwargs);
  command
      .add_flag("--thinking,!--no-thinking", flags.thinking,
                "Whether models that can do both think first, where a request does not say")
      ->group(group);
  command
      .add_option("--chat-template", flags.chat_template,
                  "Use this Jinja file instead of the model's own template")
      ->group(group);
}

void check_serve_flags(const ServeFlags& flags) {
  if (flags.max_num_seqs > flags.max_num_batched_tokens) {
    throw CLI::ValidationError("--max-num-seqs",
                               "must not exceed --max-num-batched-tokens: every running sequence "
                               "has a row in each step");
  }
  if (flags.server.tls_cert_file.empty() != flags.server.tls_key_file.empty()) {
    throw CLI::ValidationError("--tls-cert", "give --tls-cert and --tls-key together");
  }
  if (flags.dtype == "half" || flags.dtype == "float16") {
    throw CLI::ValidationError("--dtype",
                               "float16 overflows in DeepSeek models and is not offered; use auto");
  }
  if (flags.max_header_bytes < 1024 || flags.max_header_bytes > 16 << 20) {
    throw CLI::ValidationError("--max-header-size", "must be from 1KiB to 16MiB");
  }
  for (const std::string& name : flags.served_names) {
    if (name.empty()) throw CLI::ValidationError("--served-model-name", "must not be empty");
  }
  for (const std::string& key : flags.api_keys) {
    if (key.empty() || key.find_first_of(" \t\r\n") != std::string::npos) {
      throw CLI::ValidationError("--api-key", "must not be empty or hold spaces");
    }
  }
}

}  // namespace

void add_serve(CLI::App& app, Action& action) {
  auto flags = std::make_shared<ServeFlags>();
  CLI::App* command = app.add_subcommand("serve", "Serve the model over HTTP");
  add_engine_flags(*command, flags->engine);
  add_batch_flags(*command, *flags);
  add_network_flags(*command, *flags);
  add_access_flags(*command, *flags);
  command->footer(
      "Listens on 127.0.0.1 unless --host says otherwise. /health answers at once, /ready once\n"
      "the model is loaded. SIGTERM or Ctrl-C lets running answers finish within\n"
      "--drain-timeout; a second one stops at once. SIGHUP reads --api-key-file again.\n"
      "Examples:\n"
      "  fathom serve MODEL\n"
      "  fathom serve MODEL --port 8080 --served-model-name deepseek-chat\n"
      "  fathom serve MODEL --host 0.0.0.0 --api-key-file keys.json --tls-cert c.pem "
      "--tls-key k.pem\n"
      "  curl http://127.0.0.1:8000/ready");
  command->callback([flags, &action] {
    check_serve_flags(*flags);
    action = [flags] { return run_server(*flags); };
  });
}

}  // namespace fathom::apps
