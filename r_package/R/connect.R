# Engines elsewhere, which are objects of class RemoteEngine in Python.

#' Connect to a model on a server
#'
#' A server with OpenAI's API stands in the place of a context: llamaherd's own server,
#' llama-server, vLLM, Ollama or a hosted API. [generate()], [generate_parallel()],
#' [classify_parallel()], [embed_parallel()] and [annotate_texts()] take an engine as they take a
#' context. Journal, progress, retries and Ctrl-C are those of this session: the same call with the
#' same `journal` continues after an interruption.
#'
#' A setting that the server cannot follow causes an error that names the argument. Answers are
#' never streamed, and numbers of tokens are those that the server counts.
#'
#' Probabilities of labels come from llamaherd's server directly. From other servers they come from
#' the log-probabilities of a forced choice (llama-server, vLLM, OpenAI): a label that is not among
#' the most likely tokens that the server lists has the probability 0, and a note says so. A server
#' without log-probabilities returns only labels: probabilities are NA, and a note says so.
#' [annotate_texts()] then needs `method = "generate"`.
#'
#' `job_submit()`, `job_status()` and `job_results()` were removed, and give an error. Call the
#' function that answers the prompts with a `journal`; it does not read results of earlier jobs.
#'
#' @param url Address of the API, such as `"http://lab:8080/v1"`, or a server of [server_start()].
#' @param model Name of the model on the server. NULL takes the only model; of llamaherd's server
#'   the first one.
#' @param ... Must be empty: all further arguments must be named.
#' @param key_variable Name of the environment variable that contains the API key. The key is sent
#'   to `url` only; it is in no object, log, journal or error.
#' @param n_at_once Maximum number of requests at a time.
#' @param retries Maximum number of further tries of a request that fails by the network, by a busy
#'   or broken server, or that gets an answer which is not one. Pauses grow from half a second to a
#'   minute, or are as long as the server asks for.
#' @param timeout_s Maximum time of one try, in seconds.
#' @returns A `llamaherd_context` of class `llamaherd_engine` with `url` and `name`.
#' @seealso [server_start()], [context_create()]
#' @concept vLLM
#' @concept Ollama
#' @concept llama-server
#' @concept OpenAI
#' @concept API key
#' @export
#' @examplesIf !is.null(llamaherd_example_model())
#' old <- Sys.getenv("LLAMAHERD_SERVERS", NA)
#' Sys.setenv(LLAMAHERD_SERVERS = tempfile("servers"))
#'
#' engine <- connect(server_start(llamaherd_example_model(), n_threads = 1))
#' generate_parallel(engine, c("One, two,", "Red, green,"), max_tokens = 4)
#' server_stop()
#'
#' if (is.na(old)) Sys.unsetenv("LLAMAHERD_SERVERS") else Sys.setenv(LLAMAHERD_SERVERS = old)
#' @examplesIf FALSE
#' # The key is in the environment variable LAB_KEY, for example in .Renviron:
#' lab <- connect("http://lab:8080/v1", key_variable = "LAB_KEY")
#' coded <- annotate_texts(news, text, topics, lab, chat = TRUE, journal = "news.journal")
connect <- function(
  url,
  model = NULL,
  ...,
  key_variable = "LLAMAHERD_API_KEY",
  n_at_once = 32L,
  retries = 5L,
  timeout_s = 600
) {
  check_dots(rlang::enquos(...), character())
  check_given(url)
  key_variable <- check_string(key_variable)
  key <- Sys.getenv(key_variable)
  if (inherits(url, "llamaherd_server")) {
    key <- url$key()
    url <- url$url
  }
  value <- py_call(
    "engine_connect",
    !!!py_arguments("url", "model", "n_at_once", "retries", "timeout_s"),
    key_variable = key_variable,
    key = key
  )
  # Calls name the model of a context by its path.
  model <- list(path = value[["name"]])
  fixed(
    c(value, list(model = model)),
    class = c("llamaherd_engine", "llamaherd_context")
  )
}

#' @export
format.llamaherd_engine <- function(x, ...) {
  problem <- object_problem(x)
  c(
    sprintf("<llamaherd_engine> %s at %s", x$name, x$url),
    if (!is.null(problem)) paste("It", problem)
  )
}

# Functions that were removed; the message stays for one version.
removed_job <- function(name, error_call = rlang::caller_env()) {
  abort(
    c(
      "{.fn {name}} was removed.",
      i = "Give {.code connect(server_start(...))} to the function in place of a context:
        with {.arg journal} the same call continues after an interruption."
    ),
    "argument",
    error_call
  )
}

#' @rdname connect
#' @usage NULL
#' @export
job_submit <- function(...) removed_job("job_submit")

#' @rdname connect
#' @usage NULL
#' @export
job_status <- function(...) removed_job("job_status")

#' @rdname connect
#' @usage NULL
#' @export
job_results <- function(...) removed_job("job_results")
