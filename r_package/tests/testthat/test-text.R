test_that("tokenize gives a vector for one text, a list for several", {
  local_fake()
  model <- model_load(local_model_file())
  expect_identical(tokenize(model, "ab"), c(1L, 97L, 98L))
  expect_identical(tokenize(model, "a", add_special = FALSE), 97L)
  expect_identical(tokenize(model, "", add_special = FALSE), integer())
  expect_identical(
    tokenize(model, c(x = "a", y = ""), add_special = FALSE),
    list(x = 97L, y = integer())
  )
  expect_identical(tokenize(model, character()), list())
})

test_that("detokenize gives a string for a vector, a vector for a list", {
  local_fake()
  model <- model_load(local_model_file())
  expect_identical(detokenize(model, c(97L, 233L)), "a\u00e9")
  expect_identical(detokenize(model, 97), "a")
  expect_identical(detokenize(model, integer()), "")
  expect_identical(
    detokenize(model, list(x = 97, y = integer())),
    c(x = "a", y = "")
  )
})

test_that("messages may be a list or a data frame", {
  local_fake()
  model <- model_load(local_model_file())
  messages <- list(
    list(role = "system", content = "Be brief."),
    list(role = "user", content = "Hi")
  )
  expected <- "<system>Be brief.<user>Hi<assistant>"
  expect_identical(apply_chat_template(model, messages), expected)
  table <- data.frame(
    role = c("system", "user"),
    content = c("Be brief.", "Hi")
  )
  expect_identical(apply_chat_template(model, table), expected)
  table$role <- factor(table$role)
  expect_identical(apply_chat_template(model, table), expected)
  expect_identical(
    apply_chat_template(model, messages[1], add_assistant = FALSE),
    "<system>Be brief."
  )
  apply_chat_template(
    model,
    messages[1],
    variables = list(enable_thinking = FALSE)
  )
  expected <- "None, True, {'enable_thinking': False})"
  expect_match(the$module$seen("apply_chat_template"), expected, fixed = TRUE)
})

test_that("a vector of texts gives a vector of prompts", {
  local_fake()
  model <- model_load(local_model_file())
  expect_identical(
    apply_chat_template(model, c(a = "x", b = NA, c = "y"), system = "Be brief."),
    c(
      a = "<system>Be brief.<user>x<assistant>",
      b = NA,
      c = "<system>Be brief.<user>y<assistant>"
    )
  )
  expect_identical(apply_chat_template(model, factor("x")), "<user>x<assistant>")
  expect_identical(apply_chat_template(model, NA), NA_character_)
  expect_identical(apply_chat_template(model, character()), character())
  talk <- list(list(role = "user", content = "x"))
  expect_identical(
    apply_chat_template(model, list(a = talk, b = NULL, c = "y")),
    c(a = "<user>x<assistant>", b = NA, c = "<user>y<assistant>")
  )
  expect_identical(
    apply_chat_template(model, talk, system = "Be brief."),
    "<system>Be brief.<user>x<assistant>"
  )
})

test_that("wrong arguments are named with their values", {
  local_fake()
  model <- model_load(local_model_file())
  expect_refused({
    tokenize("model", "a")
    tokenize(model, NA_character_)
    tokenize(model, 1)
    detokenize(model, "a")
    detokenize(model, c(1, NA))
    detokenize(model, list(1, "a"))
    apply_chat_template(model, 1)
    apply_chat_template(model, list())
    apply_chat_template(model, list(role = "user", content = "Hi"))
    apply_chat_template(model, list("Hi", list(list(role = "user"))))
    apply_chat_template(model, c("Hi", "caf\xe9"))
    apply_chat_template(model, "Hi", system = NA)
    apply_chat_template(model, "Hi", variables = list(x = "caf\xe9"))
    apply_chat_template(model, list(list(role = "user")))
    apply_chat_template(
      model,
      list(list(role = "user", content = NA_character_))
    )
    apply_chat_template(model, list(list(role = "user", content = 1)))
    apply_chat_template(
      model,
      list(list(role = "user", content = "Hi")),
      variables = list(1)
    )
  })
})
