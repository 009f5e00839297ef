CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied_at TIMESTAMP);
CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT NOT NULL DEFAULT "", description TEXT NOT NULL DEFAULT "", session_type TEXT NOT NULL DEFAULT "user", working_dir TEXT NOT NULL, created_at TIMESTAMP, updated_at TIMESTAMP, total_tokens INTEGER, input_tokens INTEGER, output_tokens INTEGER, accumulated_total_tokens INTEGER, provider_name TEXT, model_config_json TEXT, parent_session_id TEXT);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT, session_id TEXT NOT NULL, role TEXT NOT NULL, content_json TEXT NOT NULL, created_timestamp INTEGER NOT NULL, tokens INTEGER, metadata_json TEXT);
INSERT INTO sessions VALUES ('20260101_3', 'Every block', '', 'scheduled', '/home/user/demo', '2026-01-01 00:00:00', '2026-01-01 00:01:00', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO messages (message_id, session_id, role, content_json, created_timestamp, metadata_json) VALUES
(NULL, '20260101_3', 'system', '[{"type":"text","text":"You are helpful."}]', 1767225600, NULL),
('m1', '20260101_3', 'user', '[{"type":"text","text":"<info-msg>now</info-msg>"},{"type":"text","text":"Go"}]', 1767225601, '{"userVisible":true,"agentVisible":true}'),
('m2', '20260101_3', 'assistant', '[{"type":"redactedThinking","data":"x"},{"type":"reasoning","text":"old style"},{"type":"toolConfirmationRequest","id":"t"},{"type":"systemNotification","msg":"n"},{"type":"hologram"},{"type":"toolRequest","id":"c1","toolCall":{"status":"error","error":"bad json"}},{"type":"toolRequest","id":"c2","toolCall":{"status":"success","value":{"name":"fetch","arguments":{}}}},{"type":"text","text":"done"}]', 1767225602, NULL),
('m3', '20260101_3', 'user', '[{"type":"toolResponse","id":"c2","toolResult":{"status":"error","error":"no network"}},{"type":"toolResponse","id":"cx","toolResult":{"status":"success","value":"nobody asked"}}]', 1767225603, NULL),
('m4', '20260101_3', 'assistant', '[{"type":"text","text":"for the model"}]', 1767225604, '{"userVisible":false}'),
('m5', '20260101_3', 'robot', '[{"type":"text","text":"beep"}]', 1767225605, NULL),
('m6', '20260101_3', 'assistant', '[]', 1767225606, NULL);
