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
  optional <- function(name, check) {
    if (!is.null(env[[name]])) check(env[[name]])
  }
  options <- list(
    method = check_choice(
      env$method,
      c("auto", "classify", "generate"),
      "method",
      env
    ),
    calibrate = optional("calibrate", \(x) {
      check_choice(x, c("batch", "contextual"), "calibrate", env)
    }),
    normalize = check_choice(
      env$normalize,
      c("sum", "token", "byte", "pmi"),
      "normalize",
      env
    ),
    chat = check_flag(env$chat, "chat", env),
    distribution = check_flag(env$distribution, "distribution", env),
    split = optional("split", \(x) {
      check_choice(x, c("first", "last", "majority", "mean"), "split", env)
    }),
    part_tokens = optional("part_tokens", \(x) {
      check_whole(x, "part_tokens", min = 1, error_call = env)
    }),
    journal = optional("journal", \(x) {
      if (rlang::is_bool(x)) {
        x
      } else {
        expand_path(check_string(x, "journal", error_call = env))
      }
    }),
    on_error = check_choice(
      env$on_error,
      c("continue", "return", "stop"),
      "on_error",
      env
    ),
    seed = as.double(check_whole(
      env$seed,
      "seed",
      min = 0,
      max = 2^32 - 1,
      error_call = env
    )),
    temperature = check_number(env$temperature, "temperature", error_call = env),
    max_tokens = check_whole(env$max_tokens, "max_tokens", min = 1, error_call = env),
    thinking = check_thinking(env$thinking, env),
    n_thoughts = check_whole(env$n_thoughts, "n_thoughts", min = 1, error_call = env),
    variables = if (length(env$variables) > 0) check_variables(env$variables, env),
    template = check_string(env$template, "template", null = TRUE, error_call = env),
    merge_system = check_flag(env$merge_system, "merge_system", env),
    date = check_date(env$date, "date", env),
    evidence = check_evidence(env$evidence, env),
    until = optional("until", \(x) check_whole(x, "until", min = 50, error_call = env)),
    embeddings = optional("embeddings", \(x) check_later(x, "embeddings", env)),
    unsure = optional("unsure", \(x) check_number(x, "unsure", error_call = env)),
    larger = optional("larger", \(x) check_later(x, "larger", env)),
    versions = list(R = as.character(getRversion()))
  )
  Filter(Negate(is.null), options)
}

# Returns the model of a later step: an object of Python, or a path.
check_later <- function(x, arg, error_call) {
  if (inherits(x, "llamaherd_context")) {
    return(check_context(x, arg, error_call))
  }
  if (arg == "embeddings" && inherits(x, "llamaherd_model")) {
    return(check_model(x, arg, error_call))
  }
  if (!rlang::is_string(x)) {
    must <- if (arg == "larger") {
      "a <llamaherd_context> or the path of a model file"
    } else {
      "a <llamaherd_model> or the path of a model file"
    }
    abort_argument(arg, must, x, error_call)
  }
  path.expand(x)
}

# Checks the argument `evidence`. Returns TRUE, FALSE, or the minimum and maximum length of a quote.
check_evidence <- function(x, error_call) {
  if (rlang::is_bool(x)) {
    return(x)
  }
  if (inherits(x, "llamaherd_type") && x$kind == "quote") {
    return(x$rule)
  }
  abort_argument("evidence", "TRUE, FALSE or a type from type_quote()", x, error_call)
}
