#' Create a context
#'
#' A context holds the memory for running prompts: KV cells for `n_ctx` tokens, and slots for
#' `n_seq_max` prompts at a time. Any number of prompts can run in a context, in any number of
#' calls.
#'
#' @param model A `llamaherd_model` from [model_load()].
#' @param n_ctx Number of tokens, of prompts and answers together, that the context can hold. A
#'   single long prompt may use all `n_ctx` tokens; the number of prompts that run at a time depends
#'   on how many fit. `"auto"` chooses a number that fits the prompts of each call and the available
#'   memory.
#' @param n_threads Number of threads. `"auto"` or NULL uses the number of physical cores.
#' @param n_seq_max Maximum number of prompts that run at a time, at most 248. `"auto"` chooses a
#'   number. Running prompts one at a time takes three to five times as long as running 32 together.
#' @param verbosity Negative values show errors only; 2 or more adds a line about the context.
#' @param kv_layout `"per_sequence"` gives each running prompt its own cells, enough for the longest
#'   prompt of the call. `"unified"` shares all cells among all prompts. `"unified"` is faster than
#'   `"per_sequence"` if prompts share a long beginning and differ only at their end, and needs
#'   less memory if the lengths of prompts differ. `"auto"` chooses `"per_sequence"` or `"unified"`
#'   for the prompts of each call.
#' @param n_batch Maximum number of prompt tokens per step. NULL chooses a number.
#' @param ... Further settings by name: `n_ubatch`, `n_threads_batch`, `flash_attn` (TRUE, FALSE or
#'   `"auto"`), `type_k` and `type_v` (types of the cells, such as `"f16"` or `"q8_0"`),
#'   `offload_kqv`, `swa_full`, `keep_prefixes` and `deterministic` (see below); and settings of
#'   rotary embeddings, which replace the settings of the model's file: `rope_scaling_type`
#'   (`"none"`, `"linear"`, `"yarn"` or `"longrope"`), `rope_freq_base`, `rope_freq_scale`,
#'   `yarn_ext_factor`, `yarn_attn_factor`, `yarn_beta_fast`, `yarn_beta_slow`, `yarn_orig_ctx`. Any
#'   other name causes an error. A call starts from the longest beginning that an earlier call has
#'   computed; with `keep_prefixes = FALSE` it computes all tokens again. With
#'   `deterministic = TRUE` an answer is identical to the last bit, whichever other prompts run and
#'   in whichever order. With `deterministic`, the computation of prompts takes up to twice as long.
#'   Recurrent and hybrid models, such as Mamba, Granite 4 H and LFM2, do not support
#'   `deterministic`.
#' @param cluster Where prompts are computed. NULL computes in this process, `"local"` in several
#'   processes of this machine, `"auto"` on the Ray cluster of this machine, and `"host:port"` or
#'   `"ray://host:port"` on the Ray cluster at that address. See below.
#' @param n_actors Number of processes (Ray actors); NULL starts one process per machine.
#' @param num_cpus Number of CPUs per process. NULL gives each process an equal share.
#'
#' @section Clusters:
#' With `cluster`, prompts are answered by processes on the machines of the cluster. Each process
#' has its own model and context. A context with a `cluster` works in all functions that answer many
#' prompts or texts, with the same results; this session handles journal, progress and Ctrl-C.
#' Answers cannot be streamed. Prompts with the same beginning are sent to the same process. A
#' process that dies is started again, and its unfinished prompts are computed again. Sizes
#' (`n_ctx`, `n_threads`, `n_seq_max`) are per process. Each machine needs the model at the same
#' path. This session uses only the vocabulary of the model: with
#' `model_load(check_memory = FALSE)` the model may be larger than the memory of this machine.
#' `attr(result, "stats")$actors` has one row per process.
#'
#' Clusters need the Python package ray, in the same version on all machines:
#' `reticulate::virtualenv_install("r-llamaherd", "ray")`. On a single machine one context already
#' uses all cores, so a cluster on this machine is faster than one context only if the machine has
#' several sockets.
#'
#' @returns A `llamaherd_context`. `close()` frees the memory of the context; R also frees this
#'   memory when no variable refers to the context.
#' @seealso [generate_parallel()]; [connect()] for a model on a server
#' @concept common beginning
#' @concept prefix cache
#' @concept threads
#' @concept Ray
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
#' context <- context_create(model, cluster = "local", n_actors = 4, num_cpus = 8)
#' generate_parallel(context, c("One.", "Two."), journal = "answers.sqlite")
#' close(context)
#' # One process on each machine of a cluster:
#' context <- context_create(model, cluster = "ray://head:10001")
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
  options <- py_arguments("n_ctx", "n_threads", "n_seq_max", "kv_layout", "n_batch")
  # Python treats NULL as "auto".
  options["n_threads"] <- list(if (!identical(n_threads, "auto")) options$n_threads)
  actors <- list(n_actors = py_value(n_actors), num_cpus = py_value(num_cpus))
  started <- c(options, context_dots(list(...)), Filter(Negate(is.null), actors))
  where <- py_value(cluster)

  value <- quietly(
    verbosity < 0,
    if (is.null(where)) {
      py_call("context_create", object, started)
    } else {
      start_actors(object, where, started)
    }
  )
  context <- fixed(
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

# Further arguments of Context in Python.
context_options <- strsplit(
  "n_ubatch n_threads_batch flash_attn type_k type_v offload_kqv swa_full keep_prefixes
   deterministic rope_scaling_type rope_freq_base rope_freq_scale yarn_ext_factor
   yarn_attn_factor yarn_beta_fast yarn_beta_slow yarn_orig_ctx",
  "\\s+"
)[[1]]

context_dots <- function(dots) {
  check_dots(dots, context_options)
  Map(\(value, name) py_value(value, name), dots, names(dots))
}

#' @export
format.llamaherd_context <- function(x, ...) {
  problem <- object_problem(x)
  plan <- if (is.null(problem)) py_call("context_plan", x$python)
  c(
    sprintf("<llamaherd_context> of %s", base_name(x$model$path)),
    sprintf(
      "n_ctx %s, n_seq_max %s, kv_layout %s",
      x$n_ctx,
      x$n_seq_max,
      x$kv_layout
    ),
    if (!is.null(x$cluster)) paste("cluster", x$cluster),
    as_text(plan),
    if (!is.null(problem)) paste("It", problem)
  )
}

#' @export
close.llamaherd_context <- function(con, ...) {
  close_object(con)
}

# Contexts on a Ray cluster, which are objects of class Cluster in Python.

# Starts the processes of a cluster, whose machines may need minutes to be ready. Ctrl-C ends the
# actors.
start_actors <- function(object, cluster, options) {
  cluster <- wait_for_result(
    py_call("cluster_start", object, cluster, options),
    "Interrupted: the actors are ended.",
    \(job) {
      end_clusters_at_exit()
      py_call("job_result", job)
    },
    keep = FALSE
  )
  list(python = cluster)
}

# Ends the processes of clusters when R exits: R ends without finalizing Python, and Ray's threads
# would then crash R.
end_clusters_at_exit <- local({
  clusters <- NULL
  function() {
    if (is.null(clusters)) {
      clusters <<- rlang::env(pid = Sys.getpid())
      # An error at the exit of R, such as a missing Python, would be printed with its stack.
      end <- \(clusters) {
        if (clusters$pid == Sys.getpid()) try(py_call("clusters_end"), silent = TRUE)
      }
      reg.finalizer(clusters, end, onexit = TRUE)
    }
  }
})
