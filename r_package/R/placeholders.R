# Warns of prompts with a placeholder, such as {text}, that looks like glue but is not filled in:
# prompts are not templates. JSON, LaTeX and code also contain braces, so a placeholder is reported
# only if all prompts contain it and the user has a variable of this name.

warn_placeholders <- function(prompts, arg, error_call) {
  if (!is.character(prompts) || inherits(prompts, "glue") || length(prompts) == 0) {
    return(invisible())
  }
  found <- placeholders_of(unique(prompts[!is.na(prompts)]))
  env <- user_frame(error_call)
  is_known <- vapply(
    found,
    \(name) {
      variable <- variable_of(name, env)
      is.atomic(variable) && !is.null(variable)
    },
    NA
  )
  if (any(is_known)) {
    shown <- encodeString(names(found)[is_known][[1]], quote = "\"")
    warn(
      c(
        "{.arg {arg}} contains {shown}, which stays as it is: prompts are not templates.",
        i = "{.code paste0(\"Is this positive? \", texts)} or {.code glue::glue()} fills in values."
      ),
      "placeholder",
      error_call
    )
  }
}

# Warns of a question of a codebook that contains a placeholder of one of these names.
warn_placeholders_of <- function(question, names, error_call) {
  found <- placeholders_of(question)
  at <- found %in% names
  if (any(at)) {
    shown <- encodeString(names(found)[at][[1]], quote = "\"")
    warn(
      c(
        "The question of the codebook contains {shown}, which stays as it is.",
        i = "Each text is added after the question: {.fn prompt_preview} shows the prompt."
      ),
      "placeholder",
      error_call
    )
  }
}

# Returns the names in braces that all texts contain; their names are the whole placeholders.
placeholders_of <- function(texts) {
  if (length(texts) == 0 || anyNA(as_utf8(texts[[1]]))) {
    return(character())
  }
  # No placeholders: \textbf{word}, ${name}, f(x){y}, {"json": 1}.
  pattern <- "(?<![\\w\\\\$}{)])(\\{\\{\\s*[A-Za-z][\\w.]*\\s*\\}\\}|\\{[A-Za-z][\\w.]*\\})(?!\\})"
  first <- as_utf8(texts[[1]])
  found <- unique(regmatches(first, gregexpr(pattern, first, perl = TRUE))[[1]])
  found <- Filter(\(each) all(grepl(each, texts, fixed = TRUE, useBytes = TRUE)), found)
  stats::setNames(gsub("[{}[:space:]]", "", found), found)
}

# Returns the environment in which the user called this package, whose function `frame` belongs to.
# This can be a data mask, such as in dplyr::mutate(): it has no frame number, and sys.parents()
# then gives the number of the called function itself. The loop is bounded, because code that is
# evaluated in a frame can make the frame its own caller.
user_frame <- function(frame) {
  for (i in seq_len(sys.nframe())) {
    if (!identical(topenv(frame), topenv())) {
      return(frame)
    }
    frame <- do.call(parent.frame, list(), envir = frame)
  }
  globalenv()
}
