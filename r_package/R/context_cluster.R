# Contexts on a Ray cluster, which are objects of class Cluster in Python.

check_cluster <- function(cluster, error_call = rlang::caller_env()) {
  places <- "^(local|auto|ray://[^[:space:]]+|[^[:space:]/]+:[0-9]+)$"
  is_place <- rlang::is_string(cluster) && grepl(places, cluster)
  if (!is.null(cluster) && !is_place) {
    must <- "NULL, \"local\", \"auto\", \"host:port\" or \"ray://host:port\""
    abort_argument("cluster", must, cluster, error_call)
  }
  cluster
}

# Checks the arguments `n_actors` and `num_cpus`. Returns the arguments that the user set, as a list
# for Python.
check_actors <- function(n_actors, num_cpus, cluster, error_call = rlang::caller_env()) {
  given <- c("n_actors", "num_cpus")[c(!is.null(n_actors), !is.null(num_cpus))]
  if (is.null(cluster) && length(given) > 0) {
    abort(
      c(
        "{.arg {given[[1]]}} can be given together with {.arg cluster} only.",
        i = "{.code cluster = \"local\"} computes in several processes of this machine."
      ),
      "argument",
      error_call
    )
  }
  actors <- list()
  if (rlang::is_string(n_actors) && n_actors %in% c("nodes", "numa")) {
    text <- "{.arg n_actors} must be a number; NULL starts one process on each machine."
    abort(text, "argument", error_call)
  } else if (!is.null(n_actors)) {
    actors$n_actors <- py_value(n_actors, error_call = error_call)
  }
  if (!is.null(num_cpus)) {
    actors$num_cpus <- py_value(num_cpus, error_call = error_call)
  }
  actors
}

# Starts the processes of a cluster, whose machines may need minutes to be ready. Ctrl-C ends the
# actors.
start_actors <- function(object, cluster, options, error_call = rlang::caller_env()) {
  collect <- function(job) {
    end_clusters_at_exit()
    py_call("cluster_result", job, error_call = error_call)
  }
  run <- run_in_slices(
    py_call("cluster_start", object, cluster, options, error_call = error_call),
    collect,
    new_bar(FALSE),
    error_call,
    keep = FALSE
  )
  if (run$interrupted) {
    interrupt("Interrupted: the actors are ended.", NULL, 0L)
  }
  run$columns
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

# Returns one line per actor, and the number of the remaining actors if there are more than `n_max`.
format_actors <- function(columns, n_max = 10L) {
  actors <- lapply(columns, unlist)
  n <- length(actors$actor)
  line <- function(i) {
    threads <- actors$n_threads[[i]]
    paste0(
      sprintf("  actor %d on %s: ", actors$actor[[i]], actors$node[[i]]),
      sprintf("%d thread%s, ", threads, if (threads == 1) "" else "s"),
      format_bytes(actors$memory_bytes[[i]])
    )
  }
  c(
    vapply(seq_len(min(n, n_max)), line, ""),
    if (n > n_max) sprintf("  and %d more", n - n_max)
  )
}
