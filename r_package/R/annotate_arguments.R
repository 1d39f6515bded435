# Arguments of annotate_texts(): texts of a data frame, options for Python, models of later steps.

# Returns the texts (NULL for NA), the name of their column, and whether `data` has this column.
texts_of <- function(data, quosure, error_call) {
  plain <- without_groups(data)
  values <- rlang::try_fetch(
    rlang::eval_tidy(quosure, plain),
    error = \(cnd) {
      abort(
        c(
          "{.arg text} must be a column of {.arg data}, or an expression of its columns.",
          i = "There are {listed_columns(data)}."
        ),
        "argument",
        error_call,
        parent = cnd
      )
    }
  )
  name <- rlang::as_label(quosure)
  if (rlang::is_string(rlang::quo_get_expr(quosure)) || rlang::is_string(values)) {
    if (values %in% names(data)) {
      name <- values
      values <- plain[[values]]
    } else if (rlang::is_string(rlang::quo_get_expr(quosure))) {
      hint <- "Columns are named without quotes, or as a string."
      abort_argument("text", "a column of `data`", values, error_call, hint)
    }
  }
  if (is.factor(values)) {
    values <- as.character(values)
  }
  if (is.logical(values) && all(is.na(values))) {
    values <- as.character(values)
  }
  if (!is.character(values) || length(values) != nrow(data)) {
    must <- sprintf("texts, one for each of the %d rows", nrow(data))
    hint <- sprintf("There are the columns %s.", listed_columns(data))
    abort_argument("text", must, values, error_call, hint)
  }
  utf8 <- as_utf8(values)
  is_column <- name %in% names(data) && identical(as.character(plain[[name]]), values)
  list(
    values = text_list(utf8),
    texts = utf8,
    bad = which(is.na(utf8) & !is.na(values)),
    name = name,
    is_column = is_column
  )
}

# Warns of invalid texts, which a call without a column of errors leaves out.
warn_invalid <- function(bad, n, error_call) {
  if (length(bad) > 0) {
    warn(
      c(
        "{length(bad)} of {n} text{?s} {cli::qty(length(bad))}{?is/are} left out.",
        x = "Row {bad[[1]]}: {invalid_text}"
      ),
      "failed",
      error_call
    )
  }
}

# Adds the errors of invalid texts, which Python got as missing texts, to Python's columns.
with_invalid_texts <- function(columns, bad) {
  columns[["errors"]][bad] <- list(invalid_text)
  columns[["error_codes"]][bad] <- list("invalid_text")
  columns
}

# Returns a data frame of the texts only; without columns if the texts are not a column.
plain_texts <- function(texts) {
  column <- if (texts$is_column) stats::setNames(list(texts$texts), texts$name)
  new_frame(as.list(column), length(texts$texts))
}

# Returns the texts as a list with NULL in place of NA, which would become the text "NA" in Python.
text_list <- function(x) {
  values <- as.list(unname(x))
  values[is.na(x)] <- list(NULL)
  values
}

without_groups <- function(data) {
  new_frame(lapply(stats::setNames(nm = names(data)), \(name) data[[name]]), nrow(data))
}

# Converts the arguments of annotate_texts() to the options of the Python function.
coding_options <- function(env) {
  options <- lapply(stats::setNames(nm = names(annotate_kinds)), \(name) {
    default <- eval(formals(annotate_texts)[[name]])
    as_option(env[[name]], annotate_kinds[[name]], name, default, env)
  })
  options$versions <- list(R = as.character(getRversion()))
  Filter(Negate(is.null), options)
}

# Converts an option for Python, which checks its value. All choices together mean the first.
as_option <- function(x, kind, arg, default, error_call) {
  if (is.null(x) && is.null(default)) {
    return(NULL)
  }
  switch(
    kind,
    path = py_path(x, arg, error_call),
    thinking = check_thinking(x, error_call),
    variables = if (length(x) > 0) check_variables(x, error_call),
    date = check_date(x, arg, error_call),
    evidence = check_evidence(x, error_call),
    model = check_later(x, arg, error_call),
    py_value(if (identical(x, default)) x[[1]] else x, arg, error_call)
  )
}

# Returns the model of a later step: an object of Python, or a path.
check_later <- function(x, arg, error_call) {
  if (inherits(x, "llamaherd_context")) {
    return(check_context(x, arg, error_call))
  }
  if (arg == "embeddings" && inherits(x, "llamaherd_model")) {
    return(check_model(x, arg, error_call))
  }
  py_path(x, arg, error_call)
}

# Checks the argument `evidence`. Returns TRUE, FALSE, or the minimum and maximum length of a quote.
check_evidence <- function(x, error_call) {
  if (inherits(x, "llamaherd_type") && x$kind == "quote") {
    return(x$rule)
  }
  py_value(x, "evidence", error_call)
}
