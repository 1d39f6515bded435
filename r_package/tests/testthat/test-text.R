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
  expect_identical(detokenize(model, list(x = 97, y = integer())), c(x = "a", y = ""))
})

test_that("messages may be a list or a data frame", {
  local_fake()
  model <- model_load(local_model_file())
  render <- \(...) apply_chat_template(model, ...)
  table <- data.frame(role = c("system", "user"), content = c("Be brief.", "Hi"))
  messages <- lapply(1:2, \(i) as.list(table[i, ]))
  factors <- transform(table, role = factor(role))
  for (form in list(messages, table, factors)) {
    expect_identical(render(form), "<system>Be brief.<user>Hi<assistant>")
  }
  expect_identical(render(messages[1], add_assistant = FALSE), "<system>Be brief.")
  render(messages[1], variables = list(enable_thinking = FALSE))
  expect_seen("apply_chat_template", "None, True, {'enable_thinking': False})")
})

test_that("a vector of texts gives a vector of prompts", {
  local_fake()
  model <- model_load(local_model_file())
  render <- \(...) apply_chat_template(model, ...)
  x <- "<user>x<assistant>"
  y <- "<user>y<assistant>"
  brief <- paste0("<system>Be brief.", c(a = x, b = NA, c = y))
  prompts <- render(c(a = "x", b = NA, c = "y"), system = "Be brief.")
  expect_identical(prompts, c(a = brief[[1]], b = NA, c = brief[[3]]))
  expect_identical(render(factor("x")), x)
  expect_identical(render(NA), NA_character_)
  expect_identical(render(character()), character())
  talk <- list(list(role = "user", content = "x"))
  expect_identical(render(list(a = talk, b = NULL, c = "y")), c(a = x, b = NA, c = y))
  expect_identical(render(talk, system = "Be brief."), brief[[1]])
})
