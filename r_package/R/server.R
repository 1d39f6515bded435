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
  check_dots(list(...))
  check_files(model)
  check_files(lora, null = TRUE)
  if (length(lora) > 0 && !rlang::is_named(lora)) {
    abort_argument("lora", "paths with names", lora)
  }
  check_string(memory, null = TRUE)
  name <- py_value(name)
  stay <- py_value(stay)
  sizes <- list(
    `--n-ctx` = size_text(n_ctx),
    `--n-seq-max` = size_text(n_seq_max),
    `--n-threads` = size_text(n_threads)
  )
  sizes <- Filter(Negate(is.null), sizes)
  options <- as.list(rbind(names(sizes), as.character(sizes)))
  if (!is.null(memory)) {
    options <- c(options, "--memory", memory)
  }
  layers <- gpu_layers(n_gpu_layers)
  if (layers != 0L) {
    options <- c(options, "--n-gpu-layers", format(layers, scientific = FALSE))
  }
  taken <- c(
    sprintf("context.%s", gsub("-", "_", sub("--", "", names(sizes)))),
    if (layers != 0L) "model.n_gpu_layers"
  )
  options <- c(options, setting_flags(settings, taken))
  port <- py_value(port)
  # The start may take minutes, for example to download a model.
  run <- run_in_slices(
    remote_call(
      "remote_start",
      full_paths(model),
      as.list(names(model)),
      full_paths(lora),
      as.list(names(lora)),
      name,
      port,
      stay,
      options
    ),
    bar = new_bar(FALSE)
  )
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

# Returns `--set NAME=VALUE` for each setting; JSON values are TOML values. `taken` has the names of
# settings that other arguments of the call set.
setting_flags <- function(settings, taken = character()) {
  is_value <- vapply(
    settings,
    \(x) (is.numeric(x) && length(x) > 0 || is.atomic(x) && length(x) == 1) && !anyNA(x),
    NA
  )
  if (length(settings) > 0 && !(rlang::is_named(settings) && all(is_value))) {
    must <- "a list of single values and numeric vectors with names"
    abort_argument("settings", must, settings)
  }
  known <- grepl("^(model|context)\\.", names(settings))
  if (!all(known)) {
    name <- names(settings)[!known][[1]]
    hint <- sprintf("Is `%s` model.%s or context.%s?", name, name, name)
    must <- "a list with names such as model.use_mlock and context.type_k"
    abort_argument("settings", must, settings, hint = hint)
  }
  twice <- unique(names(settings)[duplicated(names(settings))])
  twice <- c(twice, intersect(names(settings), taken))
  if (length(twice) > 0) {
    hint <- sprintf("%s is given twice.", paste(twice, collapse = ", "))
    abort_argument("settings", "a list without repeated arguments", settings, hint = hint)
  }
  # Python expects a list of shares, also of one share.
  values <- Map(
    \(x, name) if (name == "model.tensor_split") I(x) else x,
    settings,
    names(settings)
  )
  values <- vapply(values, \(x) jsonlite::toJSON(x, auto_unbox = TRUE, digits = NA), "")
  as.list(rbind(
    rep("--set", length(settings)),
    sprintf("%s=%s", names(settings), values)
  ))
}

check_files <- function(x, arg = rlang::caller_arg(x), null = FALSE) {
  check_given(x, arg = arg)
  if (null && is.null(x)) {
    return(NULL)
  }
  if (!is.character(x) || length(x) == 0 || anyNA(x)) {
    abort_argument(arg, "paths of files", x)
  }
  x
}

# Returns the paths as a list; paths of existing files are absolute.
full_paths <- function(paths) {
  lapply(unname(paths), \(path) if (file_exists(path)) full_path(path) else path)
}

# Calls a Python function for servers, and passes environment variables to it: Python does not see
# variables that R sets after Python started.
remote_call <- function(fun, ...) {
  py_call("remote_at", Sys.getenv("LLAMAHERD_SERVERS"))
  py_call(fun, ...)
}

# Returns a number as text; NULL for NULL and "auto".
size_text <- function(x, arg = rlang::caller_arg(x)) {
  if (is.null(x) || identical(x, "auto")) {
    return(NULL)
  }
  if (check_whole(x, arg) < 1) {
    abort_argument(arg, "at least 1", x)
  }
  format(x, scientific = FALSE)
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
    found <- remote_call("remote_server", name)
    if (!identical(as.integer(found[["pid"]]), as.integer(pid))) {
      abort("The server of this object no longer runs.", "server")
    }
    found[["key"]]
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
