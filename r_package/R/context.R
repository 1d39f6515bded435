#' Create a context
#'
#' A context holds what prompts in work need: cells for their tokens (`n_ctx`), and places
#' for `n_seq_max` prompts at once. Any number of prompts can be given to it, one call
#' after the other.
#'
#' @param model A `llamaherd_model` from [model_load()].
#' @param n_ctx Tokens, of prompts and answers together, that the context has room for. One
#'   long prompt may use all of it; how many prompts are worked on at once follows from
#'   what fits. `"auto"` makes it fit the prompts of each call and the memory there is.
#' @param n_threads Number of threads. `"auto"`, or NULL, takes as many as the processor has
#'   cores for.
#' @param n_seq_max Number of prompts that are worked on at once, at most 248; `"auto"`
#'   chooses. One at a time takes three to five times as long as 32 together.
#' @param verbosity Negative: errors only. From 2 on, also a line about the context. The
#'   rest is the default: errors and warnings.
#' @param kv_layout `"per_sequence"`: each prompt in work has cells of its own, enough for
#'   the longest of the call. `"unified"`: all prompts take cells from one pool, which is
#'   faster where they are a long beginning in common and little else, and lets more of
#'   them fit where lengths differ and memory is short. `"auto"`: what suits the prompts of
#'   each call.
#' @param n_batch Tokens of prompts that are worked on in one step at most. NULL chooses.
#' @param ... Further settings, by name: `n_ubatch`, `n_threads_batch`, `flash_attn` (TRUE,
#'   FALSE or `"auto"`), `type_k` and `type_v` (types of the cells, such as `"f16"` or
#'   `"q8_0"`), `offload_kqv`, `swa_full`, and `deterministic` (TRUE: every answer is the
#'   same, to the last bit, whatever runs beside it, in whatever order; prompts are then
#'   read more slowly, by up to half; recurrent and hybrid models such as Mamba, Granite 4 H
#'   and LFM2 refuse it); and those of rotary embeddings, where the model's
#'   file is not to decide: `rope_scaling_type` (`"none"`, `"linear"`, `"yarn"` or
#'   `"longrope"`), `rope_freq_base`, `rope_freq_scale`, `yarn_ext_factor`,
#'   `yarn_attn_factor`, `yarn_beta_fast`, `yarn_beta_slow`, `yarn_orig_ctx`. Any other name
#'   is an error.
#' @param cluster Where to compute. NULL: in this process. `"local"`: in several processes of
#'   this machine; `"auto"`: on the Ray cluster that this machine is part of; `"host:port"` or
#'   `"ray://host:port"`: on the one there. See below.
#' @param n_actors Number of processes (Ray's actors), wherever there is room; `"numa"`: one
#'   on each NUMA node of each machine. NULL, or `"nodes"`: one on each machine.
#' @param num_cpus Processors that each of them takes; NULL: an equal share of all.
#'
#' @section Many processes, many machines:
#' With `cluster`, prompts are answered by processes with a model and a context each, on
#' as many machines as the cluster has. Every function that takes a context takes this one,
#' with the same results; journal, progress and Ctrl-C stay in this session. Prompts that
#' begin alike go to the same process. One that dies is started again, and what it had not
#' delivered is computed again. Sizes (`n_ctx`, `n_threads`, `n_seq_max`) are each process's.
#' `model` is loaded there from the same path, or sent where it is not; here only its
#' vocabulary is used, so `model_load(check_memory = FALSE)` may load one that is larger than
#' this machine's memory. `attr(result, "stats")$actors` has a row for each process, with what
#' it did for the call.
#'
#' It needs the Python package ray, on all machines in the same version:
#' `reticulate::virtualenv_install("r-llamaherd", "ray")`. On one machine it gains nothing
#' unless that has several sockets: one context uses all cores as it is.
#'
#' @returns A `llamaherd_context`. `close()` gives its memory back; so does R when no
#'   variable holds it any more.
#' @seealso [generate_parallel()]
#' @export
#' @examplesIf !is.null(llamaherd_example_model())
#' model <- model_load(llamaherd_example_model())
#' context <- context_create(model)
#' context
#' close(model)
#'
#' @examplesIf FALSE
#' # Four processes of eight processors each on this machine:
#' model <- model_load("model.gguf")
#' herd <- context_create(model, cluster = "local", n_actors = 4, num_cpus = 8)
#' generate_parallel(herd, c("One.", "Two."), journal = "answers.sqlite")
#' close(herd)
#' # One on each machine of a cluster:
#' herd <- context_create(model, cluster = "ray://head:10001")
context_create <- function(
  model,
  n_ctx = "auto",
  n_threads = "auto",
  n_seq_max = "auto",
  verbosity = 1L,
  kv_layout = "auto",
  n_batch = NULL,
  ...,
  cluster = NULL,
  n_actors = NULL,
  num_cpus = NULL
) {
  object <- check_model(model)
  verbosity <- check_whole(verbosity)
  count <- function(
    x,
    arg = rlang::caller_arg(x),
    error_call = rlang::caller_env()
  ) {
    if (!is.null(x)) check_whole(x, arg, min = 1, error_call = error_call)
  }
  options <- list(
    n_ctx = check_auto(n_ctx),
    n_threads = auto_threads(n_threads),
    n_seq_max = check_auto(n_seq_max),
    kv_layout = check_choice(kv_layout, c("auto", "unified", "per_sequence")),
    n_batch = count(n_batch)
  )
  options <- c(options, context_dots(list(...), count))
  cluster <- check_cluster(cluster)
  actors <- check_actors(n_actors, num_cpus, cluster)

  value <- quietly(
    verbosity < 0,
    if (is.null(cluster)) {
      py_call("context_create", object, options)
    } else {
      start_herd(object, cluster, c(options, actors))
    }
  )
  context <- structure(
    c(
      value,
      list(model = model, cluster = cluster),
      options[c("n_ctx", "n_seq_max", "kv_layout")]
    ),
    class = "llamaherd_context"
  )
  if (verbosity >= 2) {
    cli::cli_inform(format(context))
  }
  context
}

# In Python NULL stands for "auto".
auto_threads <- function(n_threads, error_call = rlang::caller_env()) {
  if (!is.null(n_threads) && !identical(n_threads, "auto")) {
    check_auto(n_threads, "n_threads", error_call)
  }
}

context_dots <- function(dots, count, error_call = rlang::caller_env()) {
  checks <- list(
    n_ubatch = count,
    n_threads_batch = count,
    flash_attn = \(x, ...) if (identical(x, "auto")) x else check_flag(x, ...),
    type_k = check_string,
    type_v = check_string,
    offload_kqv = check_flag,
    swa_full = check_flag,
    deterministic = check_flag,
    rope_scaling_type = check_string,
    rope_freq_base = check_number,
    rope_freq_scale = check_number,
    yarn_ext_factor = check_number,
    yarn_attn_factor = check_number,
    yarn_beta_fast = check_number,
    yarn_beta_slow = check_number,
    yarn_orig_ctx = count
  )
  check_dots(dots, names(checks), error_call)
  for (name in names(dots)) {
    dots[[name]] <- checks[[name]](
      dots[[name]],
      arg = name,
      error_call = error_call
    )
  }
  dots
}

#' @export
format.llamaherd_context <- function(x, ...) {
  problem <- object_problem(x)
  plan <- if (is.null(problem)) py_call("context_plan", x$python)
  actors <- if (is.null(problem)) py_call("herd_actors", x$python)
  c(
    sprintf("<llamaherd_context> of %s", basename(x$model$path)),
    sprintf(
      "n_ctx %s, n_seq_max %s, kv_layout %s",
      x$n_ctx,
      x$n_seq_max,
      x$kv_layout
    ),
    plan,
    if (!is.null(x$cluster)) paste("cluster", x$cluster),
    if (!is.null(actors)) format_actors(actors),
    if (!is.null(problem)) paste("It", problem)
  )
}

#' @export
print.llamaherd_context <- function(x, ...) {
  writeLines(format(x, ...))
  invisible(x)
}

#' @export
close.llamaherd_context <- function(con, ...) {
  close_object(con)
}
