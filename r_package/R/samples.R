# Several samples per prompt: the class llamaherd_samples, a list with a llamaherd_result or a
# llamaherd_table per prompt.

# Repeats each prompt of new_result() n times.
repeated <- function(prompts, n) {
  if (n == 1) {
    return(prompts)
  }
  label <- labels_of(stats::setNames(prompts$text, prompts$names))
  prompts <- lapply(prompts, \(part) rep(part, each = n))
  prompts$names <- sprintf("%s, sample %d", rep(label, each = n), seq_len(n))
  prompts
}

# Splits the result of repeated prompts by prompt.
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
  show_lines(sprintf(
    "<llamaherd_samples> %s, %s, %s of them answered",
    count_of(length(x), "prompt"),
    count_of(sum(n_samples(x)), "sample"),
    big(sum(vapply(x, \(samples) sum(!is.na(unclass(text_result(samples)))), 0L)))
  ))
  label <- encode(labels_of(x))
  for (i in seq_len(min(n, length(x)))) {
    cat(cut_to(label[[i]], getOption("width")), "\n", sep = "")
    show_lines(paste0("  ", format(text_result(x[[i]]), width = getOption("width") - 2L)))
  }
  show_more(length(x) - n, "prompt")
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

#' Majority vote among samples
#'
#' Computes the most frequent answer among several samples of each prompt, and the share of samples
#' that agree with it (self-consistency, [arXiv 2203.11171](https://arxiv.org/abs/2203.11171)).
#'
#' Among equally frequent labels the label that occurs first among the samples is the majority, and
#' `is_tie` is TRUE. Samples that failed or were not finished, and samples for which `key` returns
#' NA, are counted in `n_failed` and excluded from all shares.
#'
#' @param x Return value of `generate_parallel(n = )`, or a list with one character vector per
#'   prompt.
#' @param key Function that returns the labels for a character vector of answers, NA for answers
#'   that are not a vote. The argument of `key` is the `llamaherd_result` of the answered samples of
#'   a prompt, so that `\(x) ifelse(attr(x, "complete"), x, NA)` leaves out answers that were cut
#'   off. If the samples were generated with `schema`, `key` is called with the `llamaherd_table`
#'   of these samples: `\(x) x$field` votes on a field; the default votes on the whole answer as
#'   JSON.
#' @returns A data frame with one row per prompt, in the same order, and these columns:
#'
#'   * `name`, if the prompts have names.
#'   * `majority`: the winning label; NA without votes.
#'   * `agreement`: share of the votes that the winning label got; NA without votes.
#'   * `n_votes`: number of samples that are a vote; `n_failed`: number of all other samples.
#'   * `is_tie`: TRUE if another label got as many votes as the winning label.
#'   * `shares`: a list with one named numeric vector per prompt: the share of each label, in
#'     decreasing order.
#' @seealso [generate_parallel()]
#' @export
#' @examplesIf llamaherd_available()
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
  check_given(x)
  if (is_answers_table(x)) {
    names <- if (is.character(attr(x, "row.names"))) rownames(x)
    x <- rlang::set_names(lapply(seq_len(nrow(x)), \(i) rows_of_table(x, i)), names)
  } else if (inherits(x, "llamaherd_result")) {
    x <- stats::setNames(lapply(seq_along(x), \(i) x[i]), names(x))
  }
  can_vote <- \(samples) is.character(samples) || is_answers_table(samples)
  if (!is.list(x) || is.data.frame(x) || !all(vapply(x, can_vote, logical(1)))) {
    must <- "a list with a character vector for each prompt"
    abort_argument("x", must, x)
  }
  key <- rlang::as_function(key, call = rlang::current_env())
  labels <- lapply(unclass(x), \(samples) voted_labels(samples, key))
  table <- py_call("vote", unname(lapply(labels, text_list)))
  if (!is.null(names(x))) {
    table <- cbind(name = names(x), table)
  }
  table
}

# TRUE for a table of answers with `schema`; a table of labels or scores has no texts.
is_answers_table <- function(x) {
  inherits(x, "llamaherd_table") && !is.null(attr(x, "text"))
}

# Returns the label of each sample, NA for samples that are not a vote.
voted_labels <- function(samples, key) {
  texts <- as.character(unclass(text_result(samples)))
  at <- which(!is.na(texts))
  answered <- if (!is.data.frame(samples)) {
    samples[at]
  } else if (identical(key, trimws)) {
    texts[at]
  } else {
    rows_of_table(samples, at)
  }
  labels <- value_text(key(answered))
  if (length(labels) != length(at)) {
    abort(
      "{.arg key} must return a label for each of {length(at)} answer{?s}, not
       {length(labels)}."
    )
  }
  replace(rep(NA_character_, length(texts)), at, as_utf8(labels))
}
