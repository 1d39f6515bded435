# Servers in separate processes. Python starts and finds the servers; a key is never printed.

#' Start a server in another process
#'
#' Starts `llamaherd serve` in a separate process that only this computer can reach. [connect()]
#' puts the server in the place of a context, in this and in other R processes. Programs that use
#' OpenAI's API, such as ellmer, can also use the server.
#'
#' Each server has a name and a folder of that name, with its log and its data. If a server of this
#' name already runs, it is returned. A server runs as long as its process exists, even if it is too
#' busy to answer.
#'
#' The folders are in `~/.local/state/llamaherd`, or in the folder that the environment variable
#' `LLAMAHERD_SERVERS` names. Only you can read the folders. Other users of the computer cannot use
#' the server, because it requires a key. `server$key()` returns the key for programs such as
#' ellmer.
#'
#' A server with several models loads a model when a request first needs it, and unloads the least
#' recently used model when `memory` is full. In ellmer and [connect()], set the name of the model.
#'
#' @param model Path of a GGUF file, or another source as in [model_load()]; or a vector of several
#'   models. The names of the vector are the names of the models; without names, the names of the
#'   files are used.
#' @param name Name of the server: letters, digits, `_` and `-`.
#' @param ... Must be empty: all further arguments must be named.
#' @param stay With TRUE the server continues to run after this R session, until [server_stop()] or
#'   until you log out of the computer. With FALSE the server ends when the R session ends or
#'   crashes.
#' @param port Port of the server. 0 uses any free port.
#' @param lora LoRA adapters: a vector of paths, named by the names of the adapters. An adapter is
#'   for the first model; write `"file.gguf@name"` for an adapter of the model `name`. NULL loads no
#'   adapter.
#' @param memory Memory for the weights and caches of all models, such as `"16GB"`. The server does
#'   not start if a model could never fit. With NULL, several models share the available memory, and
#'   the cache of a single model may use half of it.
#' @param n_ctx,n_seq_max,n_threads See [context_create()]. NULL and `"auto"` choose values that
#'   suit the machine.
#' @param n_gpu_layers See [model_load()]; applies to each model of the server.
#' @param settings Other arguments of [model_load()] and [context_create()], by names such as
#'   `model.use_mlock` and `context.type_k`: a list of single values and numeric vectors, such as
#'   `list(context.deterministic = TRUE, model.tensor_split = c(3, 1))`.
#' @returns `server_start()`: a list of class `llamaherd_server` with `name`, `url`, `pid`, `model`,
#'   `folder`, `stay` and `key`, a function that returns the API key; a saved object does not
#'   contain the key. `server_stop()`: TRUE,
#'   invisibly; FALSE if the server did not run. `server_status()`: a data frame with a row for each
#'   server that was ever started and the columns `name`, `running`, `url`, `pid`, `model`, `stay`
#'   and `folder`.
#' @seealso [connect()]
#' @concept several models
#' @concept HTTP
#' @export
#' @examplesIf !is.null(llamaherd_example_model())
#' old <- Sys.getenv("LLAMAHERD_SERVERS", NA)
#' Sys.setenv(LLAMAHERD_SERVERS = tempfile("servers"))
#'
#' server <- server_start(llamaherd_example_model(), n_threads = 1)
#' server
#' generate_parallel(connect(server), c("One, two,", "Red, green,"), max_tokens = 4)
#' server_stop()
#'
#' if (is.na(old)) Sys.unsetenv("LLAMAHERD_SERVERS") else Sys.setenv(LLAMAHERD_SERVERS = old)
server_start <- function(
  model,
  name = "default",
  ...,
  stay = FALSE,
  port = 0L,
  n_ctx = NULL,
  n_seq_max = NULL,
  n_threads = NULL,
  lora = NULL,
  memory = NULL,
  n_gpu_layers = 0L,
  settings = NULL
) {
  check_dots(rlang::enquos(...))
  check_given(model)
  layers <- gpu_layers(n_gpu_layers)
  sizes <- py_arguments("n_ctx", "n_seq_max", "n_threads", "memory")
  arguments <- py_arguments(
    c("name", "port", "stay"),
    model = files_for_python(model, "model"),
    lora = files_for_python(lora, "lora"),
    sizes = c(sizes, n_gpu_layers = if (layers != 0L) layers),
    settings = lapply(settings, \(x) {
      if (length(x) == 1) py_value(x) else py_values(x)
    })
  )
  # The start may take minutes, for example to download a model.
  run <- run_in_slices(remote_call("remote_start", !!!arguments))
  server <- if (!is.null(run$value)) new_server(run$value)
  if (run$interrupted) {
    message <- if (is.null(server)) {
      "Interrupted: the server was not started."
    } else {
      sprintf("Interrupted: the server %s runs; server_stop() ends it.", server$name)
    }
    interrupt(message, server, 0L)
  }
  server
}

# Converts paths, perhaps with names, for Python. Paths of existing files become absolute.
files_for_python <- function(x, arg) {
  paths <- py_values(x, arg)
  if (!is.list(paths)) {
    return(paths)
  }
  paths <- lapply(paths, \(path) {
    if (is.character(path) && file_exists(path)) full_path(path) else path
  })
  rlang::set_names(paths, names(x))
}

# Calls a Python function for servers, and passes environment variables to it: Python does not see
# variables that R sets after Python started.
remote_call <- function(fun, ...) {
  py_call("remote_at", Sys.getenv("LLAMAHERD_SERVERS"))
  py_call(fun, ...)
}

new_server <- function(value) {
  structure(
    list(
      name = value[["name"]],
      url = value[["url"]],
      pid = value[["pid"]],
      model = value[["model"]],
      folder = r_path(value[["folder"]]),
      stay = value[["stays"]],
      key = key_of(value[["name"]], value[["pid"]])
    ),
    class = "llamaherd_server"
  )
}

# Returns the function `key`. It does not contain the key, so that users can save the object.
key_of <- function(name, pid) {
  force(name)
  force(pid)
  function() {
    server <- remote_call("remote_server", name)
    if (!identical(as.integer(server[["pid"]]), as.integer(pid))) {
      abort("The server of this object no longer runs.", "server")
    }
    server[["key"]]
  }
}

#' @rdname server_start
#' @export
server_stop <- function(name = "default") {
  invisible(remote_call("remote_stop", py_value(name)))
}

#' @rdname server_start
#' @export
server_status <- function() {
  servers <- remote_call("remote_servers")
  servers$folder <- r_path(servers$folder)
  servers
}

#' @export
format.llamaherd_server <- function(x, ...) {
  c(
    sprintf("<llamaherd server %s> %s", x$name, x$url),
    sprintf("model: %s", x$model),
    sprintf("ends with this R session: %s", if (x$stay) "no" else "yes")
  )
}
