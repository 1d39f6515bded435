# Several samples of each prompt: a llamaherd_samples, which is a list with a
# llamaherd_result for each prompt, or a llamaherd_table.

# Prompts as new_result() takes them, each n times.
repeated <- function(prompts, n) {
  if (n == 1) {
    return(prompts)
  }
  label <- labels_of(stats::setNames(prompts$text, prompts$names))
  prompts <- lapply(prompts, \(part) rep(part, each = n))
  prompts$names <- sprintf("%s, sample %d", rep(label, each = n), seq_len(n))
  prompts
}

# The result of repeated prompts, by prompt.
as_samples <- function(result, names, n) {
  if (n == 1) {
    return(result)
  }
  n_all <- length(attr(result, "finish_reason"))
  by_prompt <- unname(split(seq_len(n_all), (seq_len(n_all) - 1L) %/% n))
  cut <- if (is.data.frame(result)) rows_of_table else \(x, at) unname(x[at])
  structure(
    lapply(by_prompt, \(at) cut(result, at)),
    names = names,
    stats = attr(result, "stats"),
    class = c("llamaherd_samples", "list")
  )
}

#' @export
`[.llamaherd_samples` <- function(x, i) {
  structure(
    unclass(x)[i],
    stats = attr(x, "stats"),
    class = class(x)
  )
}

#' @export
print.llamaherd_samples <- function(x, ..., n = 10L) {
  cat(sprintf(
    "<llamaherd_samples> %d prompts, %d samples, %d of them answered\n",
    length(x),
    sum(n_samples(x)),
    sum(vapply(x, \(samples) sum(!is.na(unclass(text_result(samples)))), integer(1)))
  ))
  label <- encode(labels_of(x))
  for (i in seq_len(min(n, length(x)))) {
    cat(cut_to(label[[i]], getOption("width")), "\n", sep = "")
    writeLines(paste0("  ", format(text_result(x[[i]]), width = getOption("width") - 2L)))
  }
  if (length(x) > n) {
    cat(sprintf("... and %d more\n", length(x) - n))
  }
  invisible(x)
}

#' @rdname as.data.frame.llamaherd_result
#' @export
as.data.frame.llamaherd_samples <- function(
  x,
  row.names = NULL,
  optional = FALSE,
  ...
) {
  all <- do.call(rbind, lapply(unname(unclass(x)), as.data.frame))
  n <- n_samples(x)
  place <- data.frame(prompt = rep(seq_along(x), n), sample = sequence(n))
  table <- cbind(place, all)
  if (!is.null(names(x))) {
    table <- cbind(name = rep(names(x), n), table)
  }
  if (!is.null(row.names)) {
    rownames(table) <- row.names
  }
  table
}

n_samples <- function(x) {
  vapply(
    x,
    \(samples) length(attr(samples, "finish_reason")),
    integer(1),
    USE.NAMES = FALSE
  )
}

#' Let samples vote
#'
#' What several samples of each prompt say together: the most frequent answer, and how many
#' agree with it (self-consistency, [arXiv 2203.11171](https://arxiv.org/abs/2203.11171)).
#'
#' Of labels that are equally frequent the one wins that came first among the samples, and
#' `is_tie` is TRUE. Samples without a label are counted as `n_failed` and are in no share:
#' those that failed or were not finished, and those that `key` makes NA.
#'
#' @param x What `generate_parallel(n = )` returned; or a list with a character vector for
#'   each prompt.
#' @param key A function that makes labels of a character vector of answers, NA for those
#'   that have no vote. It gets the `llamaherd_result` of a prompt's samples without those
#'   that have no answer, so that `\(x) ifelse(attr(x, "complete"), x, NA)` leaves out
#'   what was cut off. With `schema` it gets their `llamaherd_table`: `\(x) x$field` votes
#'   on a field, the default on the whole answer, as JSON.
#' @returns A data frame with one row per prompt, in their order: `name` (if the prompts
#'   have names), `majority`, the label that wins (NA if there is none), `agreement`, its
#'   share of the votes (NaN if there are none), `n_votes`, `n_failed`, `is_tie`, and
#'   `shares`, a list with a named numeric vector for each prompt: the share of each label,
#'   the most frequent first.
#' @seealso [generate_parallel()]
#' @export
#' @examples
#' vote(list(c("yes", "no", "yes "), c("a", NA)))
#' @examplesIf !is.null(llamaherd_example_model())
#' model <- model_load(llamaherd_example_model())
#' context <- context_create(model)
#' samples <- generate_parallel(
#'   context,
#'   "Is the sea blue? Answer:",
#'   choices = c(" yes", " no"),
#'   n = 5,
#'   temperature = 1
#' )
#' vote(samples)
#' close(model)
vote <- function(x, key = trimws) {
  error_call <- rlang::current_env()
  if (is_answers_table(x)) {
    names <- if (is.character(attr(x, "row.names"))) rownames(x)
    x <- rlang::set_names(lapply(seq_len(nrow(x)), \(i) rows_of_table(x, i)), names)
  } else if (inherits(x, "llamaherd_result")) {
    x <- stats::setNames(lapply(seq_along(x), \(i) x[i]), names(x))
  }
  can_vote <- \(samples) is.character(samples) || is_answers_table(samples)
  if (!is.list(x) || is.data.frame(x) || !all(vapply(x, can_vote, logical(1)))) {
    must <- "a list with a character vector for each prompt"
    abort_argument("x", must, x, error_call)
  }
  key <- rlang::as_function(key, call = error_call)
  votes <- lapply(unclass(x), \(samples) count_votes(samples, key, error_call))
  pick <- function(name, type) {
    vapply(votes, \(vote) vote[[name]], type, USE.NAMES = FALSE)
  }
  table <- data.frame(
    majority = pick("majority", character(1)),
    agreement = pick("agreement", double(1)),
    n_votes = pick("n_votes", integer(1)),
    n_failed = pick("n_failed", integer(1)),
    is_tie = pick("is_tie", logical(1))
  )
  table$shares <- unname(lapply(votes, \(vote) vote$shares))
  if (!is.null(names(x))) {
    table <- cbind(name = names(x), table)
  }
  table
}

# What `schema` makes of samples; a table of labels or scores has no texts.
is_answers_table <- function(x) {
  inherits(x, "llamaherd_table") && !is.null(attr(x, "text"))
}

count_votes <- function(samples, key, error_call) {
  texts <- as.character(unclass(text_result(samples)))
  at <- which(!is.na(texts))
  answered <- if (!is.data.frame(samples)) {
    samples[at]
  } else if (identical(key, trimws)) {
    texts[at]
  } else {
    rows_of_table(samples, at)
  }
  labels <- as.character(key(answered))
  if (length(labels) != length(at)) {
    abort(
      "{.arg key} must return a label for each of {length(at)} answer{?s}, not
       {length(labels)}.",
      "argument",
      error_call
    )
  }
  labels <- labels[!is.na(labels)]
  seen <- unique(labels)
  counts <- tabulate(match(labels, seen), length(seen))
  # Ties stay in the order in which the labels came.
  ranked <- order(-counts, seq_along(counts))
  shares <- stats::setNames(counts[ranked] / length(labels), seen[ranked])
  list(
    majority = if (length(seen) > 0) names(shares)[[1]] else NA_character_,
    agreement = if (length(seen) > 0) shares[[1]] else NaN,
    n_votes = length(labels),
    n_failed = length(texts) - length(labels),
    is_tie = length(seen) > 1 && shares[[1]] == shares[[2]],
    shares = shares
  )
}
