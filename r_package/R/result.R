# The class llamaherd_result: a character vector with attributes that describe each answer. R's
# functions that edit texts, such as trimws(), copy the attributes of their argument. Therefore the
# attribute `answers` stores the original answers: if the texts differ from these answers, they were
# edited, and the other attributes no longer describe the texts.

new_result <- function(result, prompts) {
  text <- as.character(unclass(result))
  attributes <- attributes(result)
  attributes$errors <- errors_of(result, prompts)
  attributes$answers <- text
  attributes$names <- prompts$names
  `attributes<-`(text, attributes)
}

# Returns the reasons why prompts failed. For prompts that were not sent to Python, the reasons are
# from R.
errors_of <- function(result, prompts) {
  errors <- attr(result, "errors")
  missing <- !is.na(prompts$problems) & !is.na(errors)
  errors[missing] <- prompts$problems[missing]
  errors
}

sha256 <- function(text) {
  values <- as_py_list(text)
  values[is.na(text)] <- list(NULL)
  as_text(py_call("sha256", values))
}

is_edited <- function(x) !identical(attr(x, "answers"), as.character(unclass(x)))

# Returns the plain vector.
plain <- function(x) stats::setNames(as.character(unclass(x)), names(x))

# Attributes with an element or a row for each answer.
of_answers <- c(
  c("errors", "finish_reason", "partial", "complete"),
  c("usage", "timing", "thoughts", "logprobs")
)

#' @export
`[.llamaherd_result` <- function(x, i) {
  if (missing(i)) {
    return(x)
  }
  texts <- plain(x)
  if (is_edited(x)) {
    return(texts[i])
  }
  at <- stats::setNames(seq_along(texts), names(texts))[i]
  parts <- attributes(x)[intersect(of_answers, names(attributes(x)))]
  parts <- lapply(parts, \(part) {
    if (is.data.frame(part)) {
      new_frame(lapply(part, `[`, at), length(at))
    } else {
      part[at]
    }
  })
  hashes <- attr(x, "hashes")
  rlang::exec(
    structure,
    texts[i],
    answers = unname(texts[i]),
    !!!parts,
    stats = attr(x, "stats"),
    hashes = if (!is.null(hashes)) lapply(hashes, \(hash) hash[at]),
    class = class(x)
  )
}

# Texts that a user assigns are not answers, so the result becomes a plain vector without the
# attributes.
#' @export
`[<-.llamaherd_result` <- function(x, ..., value) {
  x <- plain(x)
  x[...] <- plain(value)
  x
}

#' @export
`[[<-.llamaherd_result` <- function(x, ..., value) {
  x <- plain(x)
  x[[...]] <- plain(value)
  x
}

#' @export
`length<-.llamaherd_result` <- function(x, value) {
  x <- plain(x)
  length(x) <- value
  x
}

# Comparisons return plain vectors, whereas R would copy the attributes by default.
#' @export
Ops.llamaherd_result <- function(e1, e2) {
  if (inherits(e1, "llamaherd_result")) {
    e1 <- plain(e1)
  }
  if (!missing(e2) && inherits(e2, "llamaherd_result")) {
    e2 <- plain(e2)
  }
  get(.Generic)(e1, e2)
}

#' Convert results to a data frame
#'
#' Results are character vectors. Functions such as [trimws()], [sub()] and [toupper()] can edit
#' them. The edited value is printed, subset and converted as plain text. Assigning to elements,
#' such as `answers[2] <- "no"`, also makes a result plain text. R copies the attributes, such as
#' `hashes`, to edited texts, although they describe the original answers;
#' `trimws(as.character(answers))` has no attributes.
#'
#' @param x A `llamaherd_result` or `llamaherd_samples` from [generate_parallel()].
#' @param row.names,... See [base::as.data.frame()].
#' @param optional TRUE returns only the texts; [data.frame()] sets it for columns.
#' @returns A data frame with one row per prompt, in the same order: `name` (if the prompts have
#'   names), `text`, `finish_reason`, `complete`, `error`, `n_prompt_tokens`, `n_reused_tokens`,
#'   `n_generated_tokens`, `seed` and `partial`. `text` is NA if there is no answer. `error` is NA
#'   if the prompt did not fail. `complete` is FALSE if an answer was cut off. `partial` is the
#'   beginning of an unfinished answer, for example after Ctrl-C, and NA for all other answers. If
#'   log-probabilities were requested, there is also the list column `logprobs`. If the model could
#'   think, there are also the columns `thinking`, `n_thinking_tokens` and `thinking_complete`. For
#'   samples, the data frame has one row per sample. Before `text` the data frame also has the
#'   columns `prompt`, the index of the prompt, and `sample`, the index of the sample.
#' @export
#' @examplesIf !is.null(llamaherd_example_model())
#' model <- model_load(llamaherd_example_model())
#' context <- context_create(model)
#' answers <- generate_parallel(context, c(a = "The sky is", b = "Grass is"), max_tokens = 8)
#' as.data.frame(answers)
#' close(model)
as.data.frame.llamaherd_result <- function(
  x,
  row.names = NULL,
  optional = FALSE,
  ...
) {
  if (optional) {
    return(as.data.frame(plain(x), row.names = row.names, optional = TRUE, ...))
  }
  if (is_edited(x)) {
    return(data.frame(text = unname(plain(x)), row.names = row.names))
  }
  usage <- attr(x, "usage")
  if (!is.null(attr(x, "thoughts"))) {
    usage <- cbind(usage, attr(x, "thoughts"))
  }
  table <- data.frame(
    text = unname(plain(x)),
    finish_reason = attr(x, "finish_reason"),
    complete = attr(x, "complete"),
    error = attr(x, "errors"),
    usage,
    partial = attr(x, "partial"),
    row.names = row.names
  )
  table$logprobs <- attr(x, "logprobs")
  if (!is.null(names(x))) {
    table <- cbind(name = names(x), table)
  }
  table
}

#' @export
format.llamaherd_result <- function(x, width = 80L, ...) {
  text <- cut_to(encode(plain(x)), width)
  if (is_edited(x)) {
    return(stats::setNames(text, names(x)))
  }
  reason <- attr(x, "errors")
  reason[is.na(reason)] <- attr(x, "finish_reason")[is.na(reason)]
  missing <- is.na(unclass(x))
  text[missing] <- cut_to(sprintf("NA (%s)", encode(reason[missing])), width)
  stats::setNames(text, names(x))
}

#' @export
print.llamaherd_result <- function(
  x,
  ...,
  n = 20L,
  width = getOption("width")
) {
  if (is_edited(x)) {
    print(plain(x), ...)
    return(invisible(x))
  }
  n_answered <- sum(!is.na(unclass(x)))
  show_answered(x, n_answered, length(x))
  if (length(x) == 1 && n_answered == 1 && !fits_line(x, width)) {
    show_lines(c(names(x), plain(x)))
    return(invisible(x))
  }
  first <- utils::head(x, n)
  if (length(first) > 0) {
    # The names of a result are often whole prompts, so print() shows the answers first.
    label <- cut_to(encode(labels_of(first)), max(width %/% 3L, 12L))
    label <- formatC(label, width = -max(nchar(label, "width")), flag = "-")
    room <- max(width - nchar(label[[1]], "width") - 1L, 10L)
    show_lines(paste(label, format(first, width = room)))
  }
  show_more(length(x) - n, "prompt")
  invisible(x)
}

show_answered <- function(x, n, n_all) {
  all <- count_of(n_all, "prompt")
  show_lines(sprintf("<%s> %s of %s answered", class(x)[[1]], big(n), all))
}

# TRUE if print() can show the single answer in one line; otherwise it prints the answer unchanged.
fits_line <- function(x, width) {
  text <- encode(plain(x))
  text == plain(x) && nchar(text, "width") + nchar(labels_of(x), "width") < width
}

# Returns the statistics of the call, because the attributes of a result make R's default summary
# useless.
#' @export
summary.llamaherd_result <- function(object, ...) {
  if (is_edited(object)) summary(plain(object), ...) else attr(object, "stats")
}

# Shows a column of answers in str(data) in one line, without the attributes.
#' @exportS3Method utils::str
str.llamaherd_result <- function(object, ...) utils::str(plain(object), ...)

# In tibbles, answers combined with others become plain text, because attributes of one call do not
# describe another.
#' @exportS3Method vctrs::vec_ptype2
vec_ptype2.llamaherd_result.llamaherd_result <- function(x, y, ...) character()

#' @exportS3Method vctrs::vec_ptype2
vec_ptype2.llamaherd_result.character <- function(x, y, ...) character()

#' @exportS3Method vctrs::vec_ptype2
vec_ptype2.character.llamaherd_result <- function(x, y, ...) character()

#' @exportS3Method vctrs::vec_cast
vec_cast.character.llamaherd_result <- function(x, to, ...) plain(x)

# Slices of tibbles, and values assigned in tibbles, are plain text as well.
#' @exportS3Method vctrs::vec_proxy
vec_proxy.llamaherd_result <- function(x, ...) plain(x)

#' @exportS3Method vctrs::vec_restore
vec_restore.llamaherd_result <- function(x, to, ...) plain(x)

#' @exportS3Method vctrs::vec_cast
vec_cast.llamaherd_result.character <- function(x, to, ...) plain(x)

#' @exportS3Method vctrs::vec_ptype_abbr
vec_ptype_abbr.llamaherd_result <- function(x, ...) "chr"

#' @exportS3Method pillar::pillar_shaft
pillar_shaft.llamaherd_result <- function(x, ...) pillar::pillar_shaft(plain(x), ...)

# The argument `logprobs` of generate(), and its results.

# Returns a data frame per prompt, NULL for a prompt without an answer; with the column `top` if
# alternatives were requested.
logprob_frames <- function(parts, k, model) {
  ids <- unique(as.integer(unlist(lapply(parts, `[`, c("tokens", "top_tokens")))))
  texts <- py_call("detokenize", model$python, lapply(ids, list), FALSE, TRUE)
  texts <- as_text(texts)
  frame <- function(tokens, logprobs, ...) {
    id <- as.integer(unlist(tokens))
    columns <- list(
      token = texts[match(id, ids)],
      id = id,
      logprob = as.double(unlist(logprobs)),
      ...
    )
    new_frame(columns, length(id))
  }
  lapply(parts, function(part) {
    if (is.null(part)) {
      return(NULL)
    }
    n_top <- as.integer(unlist(part[["n_top"]]))
    top <- frame(part[["top_tokens"]], part[["top_logprobs"]])
    top <- if (k > 0) {
      list(top = Map(\(n, end) slice(top, end - n, n), n_top, cumsum(n_top)))
    }
    rlang::exec(frame, part[["tokens"]], part[["logprobs"]], !!!top)
  })
}
